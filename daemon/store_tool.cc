#include "daemon/store_tool.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "daemon/config.h"
#include "storage/delta_store.h"

namespace shoal::daemon {
namespace {

using Json = nlohmann::ordered_json;

struct Request {
  std::string directory, run;
  bool all = false;
  std::function<Result<Json>(storage::DeltaStore*)> work;
};

constexpr std::uint64_t kProgressRecords = 1000;

Json Figures(const storage::DeltaStore& store) {
  const storage::DeltaStoreStats stats = store.stats();
  return {{"records", stats.records},
          {"bytes", stats.bytes},
          {"diskBytes", stats.disk_bytes},
          {"notice", stats.notice}};
}

Json PlaceJson(const storage::DeltaPlace& place) {
  return {{"run", place.run.ToHex()},
          {"boundary", place.boundary},
          {"side", storage::BoundarySideName(place.side)}};
}

Result<Json> Stats(storage::DeltaStore* store) {
  Json places = Json::array();
  for (const storage::DeltaPlace& place : store->Places()) {
    SHOAL_ASSIGN_OR_RETURN(const auto entries, store->Inventory(place));
    Json item = PlaceJson(place);
    const auto older = [](const auto& a, const auto& b) { return a.version < b.version; };
    const auto [oldest, newest] = std::minmax_element(entries.begin(), entries.end(), older);
    item["records"] = entries.size();
    item["oldestStep"] = oldest->version - 1;
    item["newestStep"] = newest->version - 1;
    places.push_back(std::move(item));
  }
  Json json = Figures(*store);
  json["places"] = std::move(places);
  return json;
}

Result<Json> Verify(storage::DeltaStore* store) {
  const std::uint64_t records = store->stats().records;
  std::uint64_t read = 0, good = 0;
  for (const storage::DeltaPlace& place : store->Places()) {
    SHOAL_ASSIGN_OR_RETURN(const auto entries, store->Inventory(place));
    for (const storage::DeltaInventoryEntry& entry : entries) {
      SHOAL_ASSIGN_OR_RETURN(const auto record, store->Get(place, entry.sample));
      good += record.has_value() ? 1 : 0;
      if (++read % kProgressRecords == 0) {
        std::cerr << "read " << read << " of " << records << " records\n";
      }
    }
  }
  SHOAL_RETURN_IF_ERROR(store->Flush());
  Json json = Figures(*store);
  json["good"] = good;
  json["damaged"] = store->stats().corrupt + store->stats().lost;
  return json;
}

Result<Json> Compact(storage::DeltaStore* store) {
  const std::uint64_t before = store->stats().disk_bytes;
  SHOAL_RETURN_IF_ERROR(store->Compact());
  Json json = Figures(*store);
  json["diskBytesBefore"] = before;
  return json;
}

Result<Json> Drop(storage::DeltaStore* store, const Request& request) {
  const std::uint64_t before = store->stats().records;
  std::vector<RunId> runs;
  for (const storage::DeltaPlace& place : store->Places()) {
    if (request.all || place.run.ToHex() == request.run) runs.push_back(place.run);
  }
  if (runs.empty() && !request.all) {
    return NotFound("there is no run " + request.run +
                    " in the delta store; `shoal store stats` "
                    "lists them");
  }
  for (const RunId run : runs) SHOAL_RETURN_IF_ERROR(store->DropRun(run));
  SHOAL_RETURN_IF_ERROR(store->Flush());
  Json json = Figures(*store);
  json["dropped"] = before - store->stats().records;
  return json;
}

Result<Json> Work(const Request& request) {
  const std::string path = request.directory + "/deltas";
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return NotFound("there is no delta store in " + request.directory +
                    "; give the folder of a peer with --dir");
  }
  auto store = storage::OpenRocksDeltaStore({.path = path});
  if (store.status().code() == StatusCode::kUnavailable) {
    return FailedPrecondition("the delta store in " + request.directory +
                              " is in use; stop that peer first (`shoal leave`, or end its "
                              "shoald), or look at `shoal status`");
  }
  if (!store.ok()) return store.status();
  SHOAL_ASSIGN_OR_RETURN(const Json figures, request.work(store->get()));
  Json json = {{"schemaVersion", 1}, {"directory", request.directory}};
  json.update(figures);
  return json;
}

void AddCommands(CLI::App* app, Request* request) {
  const auto add = [&](const char* name, const char* help, auto work) {
    CLI::App* command = app->add_subcommand(name, help);
    command->add_option("--dir", request->directory, "Folder of the peer's state")
        ->envname("SHOAL_DIR");
    command->final_callback([request, work] { request->work = work; });
    return command;
  };
  add("stats", "Records by run and boundary", Stats);
  add("verify", "Read every record; drop what is damaged", Verify);
  add("compact", "Copy together what is live", Compact);
  CLI::App* drop = add("drop", "Forget the records of a run, or all", nullptr);
  CLI::Option* run = drop->add_option("--run", request->run, "Run, 16 hexadecimal digits");
  CLI::Option* all = drop->add_flag("--all", request->all, "All runs");
  run->excludes(all);
  drop->final_callback([request] {
    if (request->run.empty() && !request->all) throw CLI::RequiredError("--run RUN or --all");
    request->work = [request](storage::DeltaStore* store) { return Drop(store, *request); };
  });
}

}  // namespace

ExitCode RunStoreTool(int argc, const char* const* argv) {
  SetLogLevel(LogLevel::kError);
  CLI::App app{"The delta store of a peer that does not run", "shoal store"};
  app.require_subcommand(1);
  Request request;
  AddCommands(&app, &request);
  try {
    std::vector<std::string> arguments(argv, argv + argc);
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return ExitCode::kOk;
    }
    std::cerr << "shoal: " << error.what() << "; see `shoal store --help`\n";
    return ExitCode::kUsage;
  }
  if (request.directory.empty()) {
    DaemonConfig config;
    FillConfigDefaults(&config);
    request.directory = config.directory;
  }
  const Result<Json> json = Work(request);
  if (!json.ok()) {
    std::cerr << "shoal: " << json.status().message() << "\n";
    return ExitCodeFor(json.status());
  }
  std::cout << json->dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  return json->value("damaged", 0u) > 0 ? ExitCode::kFailure : ExitCode::kOk;
}

}  // namespace shoal::daemon
