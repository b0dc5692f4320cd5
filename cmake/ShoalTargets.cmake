# shoal_library, shoal_program, shoal_test: one call per target, so that a folder's CMakeLists
# shows its row of the module graph and nothing else.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# Function names and lines for stack traces, nothing for variables: a fifth less to compile.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
if(SHOAL_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
endif()

find_program(SHOAL_CCACHE ccache)
if(SHOAL_CCACHE)
  set(shoal_ccache "${SHOAL_CCACHE}")
  if(CMAKE_GENERATOR STREQUAL "Ninja")  # which runs all compilers in the folder of the build
    file(RELATIVE_PATH shoal_root "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}/x")
    string(REGEX REPLACE "x$" "" shoal_root "${shoal_root}")
    set(shoal_ccache "${CMAKE_SOURCE_DIR}/cmake/cached" "${CMAKE_SOURCE_DIR}/" "${shoal_root}"
        "${SHOAL_CCACHE}")
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${shoal_ccache})
endif()

# One interface target carries warnings and sanitizers, so that no global flags exist.
add_library(shoal_flags INTERFACE)
target_include_directories(shoal_flags INTERFACE "${CMAKE_SOURCE_DIR}")
# nvcc has flags of its own (compression/CMakeLists.txt).
target_compile_options(shoal_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;\
-Werror;-Wshadow;-Wnon-virtual-dtor;-Wunused-result;-fno-omit-frame-pointer;-ffp-contract=off>")
# Precompiled headers are shared by all targets, so all are compiled for threads.
target_compile_options(shoal_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-pthread>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(shoal_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  # g++ 12 takes std::string::find(char, npos) for a read of npos bytes where it compiles it with
  # less optimisation than the precompiled header had.
  target_compile_options(shoal_flags INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>")
else()
  target_compile_options(shoal_flags INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
if(SHOAL_SANITIZE)
  target_compile_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(shoal_flags INTERFACE -fsanitize=${SHOAL_SANITIZE})
  # Compilers differ in what tells of a sanitizer, and g++'s own macro is undefined below.
  target_compile_definitions(shoal_flags INTERFACE SHOAL_SANITIZED)
endif()
# Coverage counters, in every library and program; the driver comes with shoal_fuzz in tests/fuzz.
function(shoal_counted target)
  if(SHOAL_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false positives deep inside libstdc++ at -O2.
  target_compile_options(shoal_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;\
-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-dangling-pointer>")
endif()
if(SHOAL_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Asio's fences, which the sanitizer does not model; its locks carry the order as well.
  # protobuf's map fields have two more members where __SANITIZE_THREAD__ is defined, and the
  # library knows nothing of them. libstdc++ keeps its own form of it.
  target_compile_options(shoal_flags INTERFACE -Wno-tsan -U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(shoal_flags INTERFACE -Wthread-safety)
endif()
# More than two hundred programs: linked in a quarter of the time.
find_program(SHOAL_LLD ld.lld)
if(SHOAL_LLD)
  target_link_options(shoal_flags INTERFACE -fuse-ld=lld)
endif()
# What tests start sanitized programs with: Debian's libraries are built without the sanitizer.
set(shoal_sanitizer_env "")
if(SHOAL_SANITIZE MATCHES "thread")
  string(CONCAT shoal_sanitizer_env "TSAN_OPTIONS=ignore_noninstrumented_modules=1:"
         "suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
endif()

# A LibTorch file needs 1.5 GB of memory to compile: never more than two at a time.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch_pool=2)

# Sources that no step of training waits for: compiled with less optimisation, which takes a quarter
# less time where they are full of JSON and command lines. Where clang instruments them, it takes
# half the time without any.
set(shoal_cold_level $<IF:$<BOOL:${SHOAL_FUZZ}>,0,1>)
function(shoal_cold target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O${shoal_cold_level}>")
endfunction()

option(SHOAL_UNITY "Compile up to eight sources of a library as one: half the time" OFF)
# Called when the folder's CMakeLists has been read: sources with options of their own stay apart.
# CMake's own UNITY_BUILD writes absolute paths, which no other clone's compiler cache would find.
function(shoal_unity target)
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  get_target_property(sources ${target} SOURCES)
  set(candidates)
  foreach(source ${ARGN})
    set(own FALSE)
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS SKIP_UNITY_BUILD_INCLUSION)
      get_source_file_property(value "${source}" ${property})
      if(value)
        set(own TRUE)
      endif()
    endforeach()
    if(NOT own AND NOT IS_ABSOLUTE "${source}" AND source MATCHES "\\.cc$")
      list(APPEND candidates "${folder}/${source}")
    endif()
  endforeach()
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -B "${CMAKE_SOURCE_DIR}/tests/lint/unity.py" 8 ${candidates}
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  set(units)
  foreach(line ${lines})
    string(REPLACE " " ";" words "${line}")
    list(GET words 0 source)
    list(GET words 1 unit)
    list(APPEND units ${unit})
    string(APPEND unit_${unit} "#include \"${source}\"\n")
    file(RELATIVE_PATH source "/${folder}" "/${source}")
    list(REMOVE_ITEM sources "${source}")
  endforeach()
  list(REMOVE_DUPLICATES units)
  foreach(unit ${units})
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_unity/${unit}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${unit_${unit}}" @ONLY)
    list(APPEND sources "${file}")
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which takes an included source for a header
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()

# shoal_library(name SRCS ... HDRS ... DEPS ... PRIVATE_DEPS ... [INNER_HDRS ...] [COLD])
# INNER_HDRS may include what PRIVATE_DEPS bring; nobody else includes them.
# The target all_verify_interface_header_sets compiles each header alone that has no source of its
# name. The others are the first include of that source. What precompiled headers hide of both, names
# of std without their header, the linter finds.
function(shoal_library name)
  cmake_parse_arguments(ARG "COLD" "" "SRCS;HDRS;INNER_HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(shoal_${name} STATIC ${ARG_SRCS} ${ARG_INNER_HDRS})
  add_library(shoal::${name} ALIAS shoal_${name})
  set(without_source ${ARG_HDRS})
  string(REGEX REPLACE "\\.cc" ".h" with_source "${ARG_SRCS}")
  list(REMOVE_ITEM without_source ${with_source})
  target_sources(
    shoal_${name}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES ${without_source}
           FILE_SET with_source TYPE HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES ${ARG_HDRS})
  set_target_properties(shoal_${name} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  target_link_libraries(shoal_${name} PUBLIC shoal_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  shoal_counted(shoal_${name})
  set_target_properties(shoal_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  set(headers standard)
  if("${ARG_DEPS}" MATCHES "shoal::(net|proto|scheduler)")  # whose headers include protobuf's
    set(headers protobuf)
  endif()
  if(ARG_COLD)
    shoal_cold(shoal_${name})
    set(headers cold_${headers})
  endif()
  shoal_use_precompiled(shoal_${name} ${headers})
  if(SHOAL_UNITY)
    cmake_language(EVAL CODE
      "cmake_language(DEFER CALL shoal_unity [[shoal_${name}]] [[${ARG_SRCS}]])")
  endif()
endfunction()

# shoal_program(name SRCS ... DEPS ...)
function(shoal_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE shoal_flags ${ARG_DEPS})
  shoal_cold(${name})
  shoal_counted(${name})
  shoal_use_precompiled(${name} cold_standard)
endfunction()

# shoal_test(name SRCS ... DEPS ... [LABELS ...] [ENV NAME=VALUE ...] [TIMEOUT s])
# Every test sees SHOAL_TEST_DATA (tests/data), SHOAL_SHARED_DATA (may be absent), SHOAL_BIN.
function(shoal_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS;ENV" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE shoal_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  shoal_cold(${name})
  shoal_use_precompiled(${name} test)
  if(SHOAL_SANITIZE MATCHES "thread")
    target_link_libraries(${name} PRIVATE shoal_grpc_sync_edges)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(SHOAL_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  # The others have one thread, in which the thread sanitizer has nothing to find.
  foreach(source ${ARG_SRCS})
    file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" started
         REGEX "NewThread(Executor|Pool)\\(|std::j?thread" LIMIT_COUNT 1)
    if(started)
      list(APPEND ARG_LABELS threads)
    endif()
  endforeach()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "SHOAL_TEST_DATA=${CMAKE_SOURCE_DIR}/tests/data;SHOAL_SHARED_DATA=${CMAKE_SOURCE_DIR}/../shared/data;SHOAL_SOURCE_DIR=${CMAKE_SOURCE_DIR};SHOAL_BIN=${CMAKE_BINARY_DIR}/bin;${shoal_sanitizer_env};${ARG_ENV}"
    SKIP_REGULAR_EXPRESSION "skipped: needs root")
endfunction()
