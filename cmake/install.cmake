# cmake --install installs the command, libmkrt with its header, CMake and pkg-config files, Python's
# package, families, docs.
include(GNUInstallDirs)
install(TARGETS mkc mkrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set_target_properties(mkrt_shared PROPERTIES EXPORT_NAME mkrt)
target_include_directories(mkrt_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS mkrt_shared EXPORT mkrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_SOURCE_DIR}/runtime/c_api/mkrt.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# find_package(mkrt) gives the target mkrt::mkrt.
install(EXPORT mkrt NAMESPACE mkrt:: FILE mkrtConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mkrt)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mkrtConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/mkrtConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mkrt)
# Debian's Python searches this folder below /usr. Elsewhere PYTHONPATH names it (docs/integrations.md).
set(MKC_PYTHON_DIR lib/python3/dist-packages CACHE STRING "folder of Python's package, below the prefix; an absolute one needs CMAKE_INSTALL_PREFIX at configure time")
include(${CMAKE_CURRENT_LIST_DIR}/installed_files.cmake)
install(FILES ${CMAKE_BINARY_DIR}/mkrt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/runtime/python/mkc DESTINATION ${MKC_PYTHON_DIR} PATTERN __pycache__ EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/_installed.py DESTINATION ${MKC_PYTHON_DIR}/mkc/mkrt)
# libmkc has the emulator and tokenizers of Python's package. An installation without it says what needs it.
# A library of an earlier build is left out: it may be that of another commit. The programs link mkc_tool, which each commit changes.
install(CODE "set(folder \"${CMAKE_INSTALL_LIBDIR}\")
set(library \"$<TARGET_FILE:mkc_shared>\")
set(made_of \"$<TARGET_FILE:mkc_tool>\")")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_libmkc.cmake)
# The component python is what a wheel has beside the package's modules (pyproject.toml).
foreach(library mkrt mkc)
  install(FILES $<TARGET_FILE:${library}_shared> DESTINATION . RENAME lib${library}.so COMPONENT python EXCLUDE_FROM_ALL)
endforeach()
install(PROGRAMS $<TARGET_FILE:mkc_beside_library> DESTINATION . RENAME mkc COMPONENT python EXCLUDE_FROM_ALL)
file(GLOB families ${CMAKE_SOURCE_DIR}/models/*.yaml)
install(FILES ${families} DESTINATION ${CMAKE_INSTALL_DATADIR}/mkc/models)
# Pages keep their places to each other, so that their links and pictures are found.
file(GLOB_RECURSE pages RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md ${CMAKE_SOURCE_DIR}/docs/*.svg
  ${CMAKE_SOURCE_DIR}/docs/*.png)
list(APPEND pages README.md CONTRIBUTING.md LICENSE models/tiny-stories/README.md)
set(page_sources ${pages})
list(TRANSFORM page_sources PREPEND ${CMAKE_SOURCE_DIR}/)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages/README.md
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/cmake/pages.py ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/pages ${pages}
  DEPENDS ${CMAKE_SOURCE_DIR}/cmake/pages.py ${page_sources}
  VERBATIM)
add_custom_target(pages ALL DEPENDS ${CMAKE_BINARY_DIR}/pages/README.md)
install(DIRECTORY ${CMAKE_BINARY_DIR}/pages/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Manual pages and completions, which the programs print from their own options.
set(manual ${CMAKE_BINARY_DIR}/share)
set(mkc_man man)
set(mkrun_man --man)
set(mkc_completions completions)
set(mkrun_completions --completions)
set(manual_files)
function(add_manual_file program path)  # path below share/; the rest: what makes the program print the file
  cmake_path(GET path PARENT_PATH folder)
  add_custom_command(OUTPUT ${manual}/${path}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}/${folder}
    COMMAND ${program} ${ARGN} > ${manual}/${path}
    DEPENDS ${program})
  install(FILES ${manual}/${path} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
  set(manual_files ${manual_files} ${manual}/${path} PARENT_SCOPE)
endfunction()
foreach(program mkc mkrun)
  add_manual_file(${program} man/man1/${program}.1 ${${program}_man})
  add_manual_file(${program} bash-completion/completions/${program} ${${program}_completions} bash)
  add_manual_file(${program} zsh/site-functions/_${program} ${${program}_completions} zsh)
  add_manual_file(${program} fish/vendor_completions.d/${program}.fish ${${program}_completions} fish)
endforeach()
add_custom_target(manual ALL DEPENDS ${manual_files})
