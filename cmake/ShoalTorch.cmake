# LibTorch from the unpacked torch wheel, as imported targets of our own: find_package(Torch)
# insists on a CUDA toolkit even where only the CPU libraries are linked.

if(NOT EXISTS "${SHOAL_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no LibTorch in ${SHOAL_TORCH_DIR}: run ./x setup")
endif()

add_library(shoal_torch INTERFACE)
add_library(shoal::torch ALIAS shoal_torch)
target_include_directories(shoal_torch SYSTEM INTERFACE
  "${SHOAL_TORCH_DIR}/include" "${SHOAL_TORCH_DIR}/include/torch/csrc/api/include")
if(SHOAL_CUDA)
  target_compile_definitions(shoal_torch INTERFACE SHOAL_CUDA)
  # Nothing refers to libtorch_cuda by name: it registers its kernels when it is loaded, so the
  # linker must keep it although nobody seems to need it.
  target_link_libraries(shoal_torch INTERFACE
    "-Wl,--push-state,--no-as-needed,${SHOAL_TORCH_DIR}/lib/libtorch_cuda.so,--pop-state"
    "${SHOAL_TORCH_DIR}/lib/libc10_cuda.so" CUDA::cudart)
endif()
# libtorch_cpu of the CUDA build needs libcudart and libcupti at run time, found through rpath.
target_link_libraries(shoal_torch INTERFACE
  "${SHOAL_TORCH_DIR}/lib/libtorch_cpu.so" "${SHOAL_TORCH_DIR}/lib/libc10.so")
target_link_options(shoal_torch INTERFACE "LINKER:--allow-shlib-undefined")
set(shoal_torch_rpath "${SHOAL_TORCH_DIR}/lib")
file(GLOB shoal_nvidia_libs "${SHOAL_TORCH_DIR}/../nvidia/*/lib")
list(APPEND shoal_torch_rpath ${shoal_nvidia_libs})
foreach(dir /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda/extras/CUPTI/lib64)
  if(EXISTS ${dir})
    list(APPEND shoal_torch_rpath ${dir})
  endif()
endforeach()
list(APPEND CMAKE_BUILD_RPATH ${shoal_torch_rpath})
