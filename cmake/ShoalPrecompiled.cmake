# Headers that most sources include, compiled once for all targets: the standard library, and with
# it protobuf or GoogleTest. No header of our own is among them, and a header of ours never relies
# on them: `./x lint` finds names of std whose header a file lacks.

option(SHOAL_PRECOMPILED "Precompile the headers that most sources include" ON)

set(shoal_standard_headers
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstddef> <cstdint> <cstring>
  <deque> <filesystem> <functional> <iostream> <map> <memory> <optional> <set> <span> <sstream>
  <string> <string_view> <thread> <utility> <vector>)

# shoal_precompiled(kind DEPS ... HEADERS ... [COLD] [COUNTED]): a target that only compiles these
# headers, with the flags of the sources that use them (ShoalTargets.cmake).
function(shoal_precompiled kind)
  cmake_parse_arguments(ARG "COLD;COUNTED" "" "DEPS;HEADERS" ${ARGN})
  set(source "${CMAKE_BINARY_DIR}/precompiled/${kind}.cc")
  file(GENERATE OUTPUT "${source}" CONTENT "")
  add_library(shoal_precompiled_${kind} OBJECT "${source}")
  target_link_libraries(shoal_precompiled_${kind} PRIVATE shoal_flags ${ARG_DEPS})
  target_precompile_headers(shoal_precompiled_${kind} PRIVATE ${ARG_HEADERS})
  if(ARG_COLD)
    shoal_cold(shoal_precompiled_${kind})
  endif()
  if(ARG_COUNTED)
    shoal_counted(shoal_precompiled_${kind})
  endif()
endfunction()

# A kind for libraries. clang wants its headers compiled at the level of the sources that use them,
# so cold ones have a kind of their own there.
function(shoal_library_headers kind)
  shoal_precompiled(${kind} COUNTED ${ARGN})
  if(SHOAL_FUZZ)
    shoal_precompiled(cold_${kind} COLD COUNTED ${ARGN})
  endif()
endfunction()

if(SHOAL_PRECOMPILED)
  shoal_library_headers(standard HEADERS ${shoal_standard_headers})
  if(NOT SHOAL_ONLY_COMPUTE)
    shoal_library_headers(protobuf DEPS protobuf::libprotobuf HEADERS ${shoal_standard_headers}
      <google/protobuf/generated_enum_reflection.h> <google/protobuf/generated_message_util.h>
      <google/protobuf/map_entry.h> <google/protobuf/map_field_inl.h>
      <google/protobuf/message.h> <google/protobuf/repeated_field.h>
      <google/protobuf/unknown_field_set.h>)
  endif()
  if(SHOAL_TESTS)
    shoal_precompiled(test COLD DEPS GTest::gmock HEADERS ${shoal_standard_headers}
                      <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

# shoal_use_precompiled(target kind)
function(shoal_use_precompiled target kind)
  if(NOT SHOAL_FUZZ)
    string(REPLACE "cold_" "" kind ${kind})
  endif()
  if(SHOAL_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM shoal_precompiled_${kind})
  endif()
endfunction()
