# Installs the file `library` into `folder`, unless it is missing or older than the file `made_of`.
cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
if(EXISTS ${library} AND NOT ${library} IS_NEWER_THAN ${made_of})
  message(STATUS "libmkc.so is older than mkc, and is not installed: its target mkc_shared makes a new one")
elseif(EXISTS ${library})
  file(INSTALL ${library} DESTINATION ${folder} TYPE SHARED_LIBRARY)
endif()
