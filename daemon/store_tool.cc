#include "daemon/store_tool.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/command_line/usage_error.h"
#include "common/log.h"
#include "daemon/artefacts/disk_quota.h"
#include "daemon/config.h"
#include "daemon/terms/usage_ledger.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"

namespace shoal::daemon {
namespace {

using Json = nlohmann::ordered_json;

struct Stores {
  storage::DeltaStore* deltas;
  storage::CheckpointStore* checkpoints;
};

struct Request {
  std::string directory, run;
  bool all = false;
  std::function<Result<Json>(const Stores&)> work;
};

constexpr std::uint64_t kProgressRecords = 1000;

Json Figures(const storage::DeltaStore& store) {
  const storage::DeltaStoreStats stats = store.stats();
  return {{"records", stats.records},
          {"bytes", stats.bytes},
          {"diskBytes", stats.disk_bytes},
          {"notice", stats.notice}};
}

Json EndJson(const storage::BoundaryEnd& end) {
  return {{"run", end.run.ToHex()},
          {"boundary", end.boundary},
          {"side", storage::BoundarySideName(end.side)}};
}

// Of each run that has some, the one saved last first.
Json CheckpointsJson(const storage::CheckpointStore& checkpoints) {
  Json runs = Json::array();
  for (const storage::StoredRun& stored : checkpoints.Runs()) {
    runs.push_back({{"run", stored.run.ToHex()},
                    {"checkpoints", stored.checkpoints},
                    {"newestStep", stored.newest_step},
                    {"bytes", stored.bytes}});
  }
  return runs;
}

Result<Json> Stats(const Stores& stores) {
  Json boundaries = Json::array();
  for (const storage::BoundaryEnd& end : stores.deltas->Ends()) {
    SHOAL_ASSIGN_OR_RETURN(const auto entries, stores.deltas->Inventory(end));
    Json item = EndJson(end);
    const auto older = [](const auto& a, const auto& b) { return a.version < b.version; };
    const auto [oldest, newest] = std::minmax_element(entries.begin(), entries.end(), older);
    item["records"] = entries.size();
    item["oldestStep"] = oldest->version - 1;
    item["newestStep"] = newest->version - 1;
    boundaries.push_back(std::move(item));
  }
  Json json = Figures(*stores.deltas);
  json["boundaries"] = std::move(boundaries);
  json["checkpoints"] = CheckpointsJson(*stores.checkpoints);
  return json;
}

Result<Json> Verify(const Stores& stores) {
  storage::DeltaStore* const store = stores.deltas;
  const std::uint64_t records = store->stats().records;
  std::uint64_t read = 0, good = 0;
  for (const storage::BoundaryEnd& end : store->Ends()) {
    SHOAL_ASSIGN_OR_RETURN(const auto entries, store->Inventory(end));
    for (const storage::DeltaInventoryEntry& entry : entries) {
      SHOAL_ASSIGN_OR_RETURN(const auto record, store->Get(end, entry.segment));
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

Result<Json> Compact(const Stores& stores) {
  storage::DeltaStore* const store = stores.deltas;
  const std::uint64_t before = store->stats().disk_bytes;
  SHOAL_RETURN_IF_ERROR(store->Compact());
  Json json = Figures(*store);
  json["diskBytesBefore"] = before;
  return json;
}

Result<Json> Drop(const Stores& stores, const Request& request) {
  const std::uint64_t before = stores.deltas->stats().records;
  const auto asked = [&](RunId run) { return request.all || run.ToHex() == request.run; };
  std::set<RunId> of_deltas, of_checkpoints;
  for (const storage::BoundaryEnd& end : stores.deltas->Ends()) {
    if (asked(end.run)) of_deltas.insert(end.run);
  }
  for (const storage::StoredRun& stored : stores.checkpoints->Runs()) {
    if (asked(stored.run)) of_checkpoints.insert(stored.run);
  }
  if (of_deltas.empty() && of_checkpoints.empty() && !request.all) {
    return NotFound("there is no run " + request.run +
                    " in this folder; `shoal store stats` lists those that are");
  }
  for (const RunId run : of_deltas) SHOAL_RETURN_IF_ERROR(stores.deltas->DropRun(run));
  for (const RunId run : of_checkpoints) SHOAL_RETURN_IF_ERROR(stores.checkpoints->DropRun(run));
  SHOAL_RETURN_IF_ERROR(stores.deltas->Flush());
  Json json = Figures(*stores.deltas);
  json["dropped"] = before - stores.deltas->stats().records;
  json["droppedCheckpointRuns"] = of_checkpoints.size();
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
                              " is in use; stop that peer first (`shoal finish`, or end its "
                              "shoald), or look at `shoal status`");
  }
  if (!store.ok()) return store.status();
  // The lock of the delta store keeps shoald away from the checkpoints, too.
  SHOAL_ASSIGN_OR_RETURN(const auto checkpoints,
                         storage::OpenCheckpointStore(request.directory + "/checkpoints"));
  SHOAL_ASSIGN_OR_RETURN(const Json figures, request.work({store->get(), checkpoints.get()}));
  Json json = {{"schemaVersion", 2}, {"directory", request.directory}};
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
  add("stats", "Print what the delta store holds, by run and boundary", Stats);
  add("verify", "Read every record of the delta store and drop damaged ones", Verify);
  add("compact", "Free the disk space that no record uses", Compact);
  CLI::App* drop = add("drop", "Drop records and checkpoints of one run, or of all runs", nullptr);
  CLI::Option* run =
      drop->add_option("--run", request->run, "Id of the run to drop: 16 hexadecimal digits");
  CLI::Option* all = drop->add_flag("--all", request->all, "Drop all runs");
  run->excludes(all);
  drop->final_callback([request] {
    if (request->run.empty() && !request->all) throw CLI::RequiredError("--run RUN or --all");
    request->work = [request](const Stores& stores) { return Drop(stores, *request); };
  });
}

}  // namespace

ExitCode RunStoreTool(int argc, const char* const* argv) {
  SetLogLevel(LogLevel::kError);
  CLI::App app{
      "Looks into the delta store and checkpoints of this machine's peer while shoald is stopped",
      "shoal store"};
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
    std::cerr << "shoal: " << UsageError(app, error) << "\n";
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

ExitCode PrintUsage(const std::string& directory) {
  const Result<UsageLedger> ledger = ReadUsageLedger(directory + "/usage.json");
  if (!ledger.ok()) {
    std::cerr << "shoald: " << ledger.status().message() << "\n";
    return ExitCodeFor(ledger.status());
  }
  std::uint64_t bytes = 0;
  for (const char* name : {"/deltas", "/content", "/checkpoints"}) {
    bytes += BytesBelow(directory + name);
  }
  std::cout << StatsJson(*ledger, bytes) << "\n";
  return ExitCode::kOk;
}

}  // namespace shoal::daemon
