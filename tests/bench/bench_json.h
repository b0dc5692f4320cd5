// What `--json` of a bench prints: the same frame as that of bench_rows.py.

#ifndef SHOAL_TESTS_BENCH_BENCH_JSON_H_
#define SHOAL_TESTS_BENCH_BENCH_JSON_H_

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace shoal::bench_command {

using Json = nlohmann::ordered_json;

// {"schemaVersion", "machine", "rows"}; `more` follows.
inline void PrintJson(const Json& rows, const Json& more = Json::object()) {
  utsname name{};
  ::uname(&name);
  Json json = {
      {"schemaVersion", 1},
      {"machine",
       {{"processors", ::sysconf(_SC_NPROCESSORS_ONLN)}, {"kernel", std::string(name.release)}}},
      {"rows", rows}};
  json.update(more);
  std::printf("%s\n", json.dump(1).c_str());
}

}  // namespace shoal::bench_command

#endif  // SHOAL_TESTS_BENCH_BENCH_JSON_H_
