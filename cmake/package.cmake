# The installed package: find_package(Plimsoll) gives Plimsoll::plimsoll, and <plimsoll/plimsoll.h> is
# its face. Installed are the libraries that api stands on and the headers that its headers include,
# nothing else.

include(CMakePackageConfigHelpers)

# The folders that the target of `folder` links, itself included.
function(plimsoll_linked_folders result folder)
  set(found ${folder})
  set(queue ${folder})
  while(queue)
    list(POP_FRONT queue current)
    get_target_property(depends plimsoll_${current} INTERFACE_LINK_LIBRARIES)
    foreach(dependency IN LISTS depends)
      if(dependency MATCHES "^plimsoll_(.*)$" AND NOT CMAKE_MATCH_1 IN_LIST found)
        list(APPEND found ${CMAKE_MATCH_1})
        list(APPEND queue ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The headers that the headers of `folder` include, themselves included, relative to src/plimsoll.
function(plimsoll_included_headers result folder)
  file(GLOB found RELATIVE "${PLIMSOLL_SOURCE_ROOT}" CONFIGURE_DEPENDS
       "${PLIMSOLL_SOURCE_ROOT}/${folder}/*.h")
  list(FILTER found EXCLUDE REGEX "_(impl|inl)\\.h$")
  set(queue ${found})
  while(queue)
    list(POP_FRONT queue current)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                           "${PLIMSOLL_SOURCE_ROOT}/${current}")
    file(STRINGS "${PLIMSOLL_SOURCE_ROOT}/${current}" lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]*)\".*$" "\\1" header "${line}")
      if(NOT header IN_LIST found)
        list(APPEND found ${header})
        list(APPEND queue ${header})
      endif()
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

add_library(plimsoll_package INTERFACE)
target_link_libraries(plimsoll_package INTERFACE plimsoll_api)
set_target_properties(plimsoll_package PROPERTIES EXPORT_NAME plimsoll)
add_library(Plimsoll::plimsoll ALIAS plimsoll_package)

plimsoll_linked_folders(folders api)
list(TRANSFORM folders PREPEND plimsoll_ OUTPUT_VARIABLE targets)
if(PLIMSOLL_ONEDNN)
  list(APPEND targets plimsoll_onednn_linked plimsoll_onednn_private)
endif()
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Plimsoll")
install(TARGETS plimsoll_package ${targets} EXPORT PlimsollTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT PlimsollTargets NAMESPACE Plimsoll:: DESTINATION "${package_dir}")

plimsoll_included_headers(headers api)
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${PLIMSOLL_SOURCE_ROOT}/${header}"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/plimsoll/${folder}")
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/include/plimsoll/plimsoll.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/plimsoll")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/PlimsollConfig.cmake.in" "${PROJECT_BINARY_DIR}/PlimsollConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/PlimsollConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/PlimsollConfig.cmake"
              "${PROJECT_BINARY_DIR}/PlimsollConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindWebP.cmake" DESTINATION "${package_dir}")
