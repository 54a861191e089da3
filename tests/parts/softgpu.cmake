# The kernels as PTX on a GPU in software.
add_subdirectory(${CMAKE_SOURCE_DIR}/tests/softgpu softgpu)
