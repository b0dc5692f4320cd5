# nvcc and the CUDA runtime, for the kernels of compression/device/. LibTorch is not needed for them.

# From the GeForce 20 and T4 (75) to the GeForce 50 (120). PTX of 90 and 120 serves what lies
# between and what comes later.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;86-real;89-real;90;120" CACHE STRING
      "GPU architectures to compile for")
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  # The last one is what ./x setup cuda fetches where there is no toolkit.
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS /usr/local/cuda/bin
               PATHS "${PROJECT_SOURCE_DIR}/.deps/nvidia/cu13/bin" REQUIRED)
endif()
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
# One runtime in a program: LibTorch brings the shared one.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 13 REQUIRED)
if(SHOAL_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${shoal_ccache})
endif()
