# The two ways to the vendor's library (backend/onednn/vendor_api.h); a program takes the first, or with
# the property PLIMSOLL_PRIVATE_ONEDNN the second:
#
#   plimsoll_onednn_linked    linked as any library
#   plimsoll_onednn_private   a copy under another name, loaded for us alone from beside the binary;
#                             plimsoll_private_dnnl makes it (build/lib/libplimsoll_dnnl.so.3)

set(onednn_include "$<TARGET_PROPERTY:DNNL::dnnl,INTERFACE_INCLUDE_DIRECTORIES>")

add_library(plimsoll_onednn_linked STATIC onednn/vendor_linked.cpp)
target_link_libraries(plimsoll_onednn_linked PUBLIC DNNL::dnnl)

add_library(plimsoll_onednn_private STATIC onednn/vendor_private.cpp)
target_link_libraries(plimsoll_onednn_private PRIVATE plimsoll_base ${CMAKE_DL_LIBS})
target_include_directories(plimsoll_onednn_private SYSTEM PRIVATE ${onednn_include})

foreach(way linked private)
  target_include_directories(plimsoll_onednn_${way} PRIVATE
                             "$<BUILD_INTERFACE:${PLIMSOLL_SOURCE_ROOT}>")
  set_target_properties(plimsoll_onednn_${way} PROPERTIES EXPORT_NAME onednn_${way})
endforeach()

set(private_dnnl "${PROJECT_BINARY_DIR}/lib/libplimsoll_dnnl.so.3")
add_executable(plimsoll_private_copy EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/private_copy.cpp")
add_custom_command(
  OUTPUT "${private_dnnl}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/lib"
  COMMAND plimsoll_private_copy "$<TARGET_FILE:DNNL::dnnl>" "${private_dnnl}"
  DEPENDS plimsoll_private_copy "$<TARGET_FILE:DNNL::dnnl>"
  VERBATIM)
add_custom_target(plimsoll_private_dnnl DEPENDS "${private_dnnl}")
if(PLIMSOLL_PRIVATE_ONEDNN)
  add_custom_target(plimsoll_installed_dnnl ALL DEPENDS plimsoll_private_dnnl)
  install(FILES "${private_dnnl}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/plimsoll")
endif()

# Whoever is linked decides.
set(onednn_way
    "$<IF:$<BOOL:$<TARGET_PROPERTY:PLIMSOLL_PRIVATE_ONEDNN>>,$<TARGET_NAME:plimsoll_onednn_private>,$<TARGET_NAME:plimsoll_onednn_linked>>"
)
