# Installed files that name the folders of others: pkg-config's mkrt.pc, and _installed.py of Python's package. Both hold
# ways from their own folders, so that an installation may move. tests/unit/tools/install_test.py includes this file.
# Sets `out` to the way from one installed folder to another. An absolute folder is kept, because it does not move with
# the prefix.
function(mkc_way out from to)
  set(way ${CMAKE_INSTALL_${to}})
  if(NOT IS_ABSOLUTE ${way} AND NOT IS_ABSOLUTE ${from})
    file(RELATIVE_PATH way /prefix/${from} /prefix/${way})
  elseif(NOT IS_ABSOLUTE ${way})
    set(way ${CMAKE_INSTALL_FULL_${to}})
  endif()
  set(${out} ${way} PARENT_SCOPE)
endfunction()
# pkg-config's file finds the prefix from its own folder, and names absolute folders as they are.
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH pc_prefix /prefix/${pc_folder} /prefix)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
    set(pc_${folder} ${CMAKE_INSTALL_${folder}})
  else()
    set(pc_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/mkrt.pc.in ${CMAKE_BINARY_DIR}/mkrt.pc @ONLY)

mkc_way(python_libraries ${MKC_PYTHON_DIR}/mkc/mkrt LIBDIR)
mkc_way(python_programs ${MKC_PYTHON_DIR}/mkc/mkrt BINDIR)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/_installed.py CONTENT [["""The installed libraries and programs, from this file's folder."""
LIBRARIES = "@python_libraries@"
PROGRAMS = "@python_programs@"
]] @ONLY)
