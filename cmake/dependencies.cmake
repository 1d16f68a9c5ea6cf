# What Plimsoll builds on. Every dependency gives one imported target; what is missing is named with
# the Debian package that brings it. Targets: Threads::Threads OpenMP::OpenMP_CXX ZLIB::ZLIB JPEG::JPEG
# PNG::PNG WebP::WebP (cmake/FindWebP.cmake) nlohmann_json::nlohmann_json CLI11::CLI11 fmt::fmt (for its
# headers: base/format.h) DNNL::dnnl (with PLIMSOLL_ONEDNN), and for tests (with PLIMSOLL_DEVELOPER)
# GTest::gmock PkgConfig::libzip PkgConfig::hdf5.

# plimsoll_need(<found> <what> <debian package>)
function(plimsoll_need found what package)
  if(NOT ${found})
    message(FATAL_ERROR "${what} was not found. Install the Debian package '${package}', "
                        "or run tools/setup, which installs everything.")
  endif()
endfunction()

# plimsoll_find_pkg_config(<module> <debian package>) -> PkgConfig::<module>
function(plimsoll_find_pkg_config module package)
  pkg_check_modules(${module} QUIET IMPORTED_TARGET GLOBAL ${module})
  plimsoll_need("${${module}_FOUND}" "${module}" ${package})
endfunction()

find_package(Threads REQUIRED)
find_package(OpenMP QUIET COMPONENTS CXX)
plimsoll_need("${OpenMP_CXX_FOUND}" "OpenMP" libgomp1)
find_package(ZLIB QUIET)
plimsoll_need("${ZLIB_FOUND}" "zlib" zlib1g-dev)
find_package(JPEG QUIET)
plimsoll_need("${JPEG_FOUND}" "libjpeg-turbo" libjpeg62-turbo-dev)
find_package(PNG QUIET)
plimsoll_need("${PNG_FOUND}" "libpng" libpng-dev)
find_package(WebP QUIET MODULE)
plimsoll_need("${WebP_FOUND}" "libwebp" libwebp-dev)
find_package(nlohmann_json QUIET CONFIG)
plimsoll_need("${nlohmann_json_FOUND}" "nlohmann-json" nlohmann-json3-dev)
find_package(CLI11 QUIET CONFIG)
plimsoll_need("${CLI11_FOUND}" "CLI11" libcli11-dev)
find_package(fmt 9 QUIET CONFIG)
plimsoll_need("${fmt_FOUND}" "fmt" libfmt-dev)

if(PLIMSOLL_ONEDNN)
  # A prefix made by tools/setup, or the one named by PLIMSOLL_DEPS, goes before the system's.
  find_package(dnnl 3.1 QUIET CONFIG HINTS "$ENV{PLIMSOLL_DEPS}/onednn"
               "${CMAKE_CURRENT_SOURCE_DIR}/.deps/onednn")
  if(NOT dnnl_FOUND)
    set(rejected "")
    if(dnnl_CONSIDERED_VERSIONS)
      set(rejected " (found: ${dnnl_CONSIDERED_VERSIONS})")
    endif()
    message(FATAL_ERROR
      "oneDNN 3.1 or newer was not found${rejected}. Run tools/setup, which takes the system's "
      "(Debian package 'libdnnl-dev') if it is new enough and otherwise puts one into "
      ".deps/onednn, or name a prefix by PLIMSOLL_DEPS, or pass -DPLIMSOLL_ONEDNN=OFF.")
  endif()
  message(STATUS "oneDNN ${dnnl_VERSION} in ${dnnl_DIR}")
endif()

if(PLIMSOLL_DEVELOPER)
  find_package(GTest QUIET)
  plimsoll_need("${GTest_FOUND}" "GoogleTest" "libgtest-dev libgmock-dev")
  find_package(PkgConfig QUIET)
  plimsoll_need("${PKG_CONFIG_FOUND}" "pkg-config" pkg-config)
  plimsoll_find_pkg_config(libzip libzip-dev)
  plimsoll_find_pkg_config(hdf5 libhdf5-dev)
endif()
