#include "scheduler/mirror/stored_run.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/nesting.h"
#include "scheduler/history/json_number.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFormat = 1;
constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 50;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kDigits = 20;

std::string HashText(std::string_view text) {
  return storage::HashOf(std::as_bytes(std::span(text))).ToHex();
}

Json ToJson(const storage::ArtefactRef& file) {
  return {{"name", file.name}, {"size", file.size}, {"blake2b", file.hash.ToHex()}};
}

Json ToJson(const std::vector<storage::ArtefactRef>& files) {
  Json list = Json::array();
  for (const storage::ArtefactRef& file : files) list.push_back(ToJson(file));
  return list;
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name != "." && name != ".." &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

// A path that stays in <run>/origin.
bool IsOriginName(std::string_view name) {
  constexpr std::string_view kModel = "model/";
  if (name == "origin.json") return true;
  return name.starts_with(kModel) && IsPlainName(name.substr(kModel.size()));
}

// Throws Json::exception where a field is missing or of another type.
Result<storage::ArtefactRef> FileFrom(const Json& json) {
  storage::ArtefactRef file;
  file.name = json.at("name").get<std::string>();
  file.size = WholeNumber<std::uint64_t>(json.at("size"));
  SHOAL_ASSIGN_OR_RETURN(file.hash,
                         storage::ContentHash::FromHex(json.at("blake2b").get<std::string>()));
  if (file.size > kFileBytesMax) return DataLoss("a file is too large");
  return file;
}

Result<std::vector<storage::ArtefactRef>> FilesFrom(const Json& json,
                                                    bool (*is_name)(std::string_view)) {
  std::vector<storage::ArtefactRef> files;
  std::set<std::string> names;
  if (!json.is_array() || json.size() > kStoredFilesMax) return DataLoss("no list of files");
  for (const Json& entry : json) {
    SHOAL_ASSIGN_OR_RETURN(storage::ArtefactRef file, FileFrom(entry));
    if (!is_name(file.name) || !names.insert(file.name).second) {
      return DataLoss("a file has a wrong name");
    }
    files.push_back(std::move(file));
  }
  return files;
}

Result<StoredRun> RunFrom(const Json& json) {
  StoredRun run;
  SHOAL_ASSIGN_OR_RETURN(run.run, RunId::FromHex(json.at("run").get<std::string>()));
  run.generation = WholeNumber<std::uint64_t>(json.at("generation"));
  run.step = WholeNumber<std::uint64_t>(json.at("step"));
  if (run.step == 0) return DataLoss("it holds no step");
  run.config = json.at("config").get<std::string>();
  SHOAL_ASSIGN_OR_RETURN(run.events, FileFrom(json.at("events")));
  SHOAL_ASSIGN_OR_RETURN(run.initial, FilesFrom(json.at("initial"), &IsPlainName));
  SHOAL_ASSIGN_OR_RETURN(run.checkpoint, FilesFrom(json.at("checkpoint"), &IsPlainName));
  SHOAL_ASSIGN_OR_RETURN(run.origin, FilesFrom(json.at("origin"), &IsOriginName));
  return run;
}

std::string Padded(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kDigits - digits.size(), '0') + digits;
}

std::optional<std::uint64_t> ParsePadded(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (text.size() != kDigits || error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<storage::ArtefactRef> StoredRun::Blobs() const {
  std::map<storage::ContentHash, storage::ArtefactRef> blobs;
  blobs.emplace(events.hash, events);
  for (const auto* files : {&initial, &checkpoint, &origin}) {
    for (const storage::ArtefactRef& file : *files) blobs.emplace(file.hash, file);
  }
  std::vector<storage::ArtefactRef> list;
  list.reserve(blobs.size());
  for (auto& [hash, file] : blobs) list.push_back(std::move(file));
  return list;
}

std::string FormatStoredRun(const StoredRun& run) {
  const Json json = {{"format", kFormat},
                     {"run", run.run.ToHex()},
                     {"generation", run.generation},
                     {"step", run.step},
                     {"config", run.config},
                     {"events", ToJson(run.events)},
                     {"initial", ToJson(run.initial)},
                     {"checkpoint", ToJson(run.checkpoint)},
                     {"origin", ToJson(run.origin)}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return HashText(text) + "\n" + text + "\n";
}

Result<StoredRun> ParseStoredRun(std::string_view text, const std::string& name) {
  const Status damaged = DataLoss(name + " is damaged");
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos || !text.ends_with('\n') || text.size() < line + 2) {
    return damaged;
  }
  const std::string_view body = text.substr(line + 1, text.size() - line - 2);
  if (text.size() > kManifestBytesMax || HashText(body) != text.substr(0, line)) return damaged;
  const Json json = ParseJson<Json>(body);
  if (!json.is_object()) return damaged;
  try {
    if (WholeNumber<std::uint64_t>(json.at("format")) != kFormat) {
      return Unimplemented(name + " was written by another version of shoal; use that one");
    }
    auto run = RunFrom(json);
    if (!run.ok()) return DataLoss(name + " is damaged: " + run.status().message());
    return run;
  } catch (const Json::exception&) {
    return damaged;
  }
}

std::string ManifestKey(const ManifestName& name) {
  return std::string(kManifestPrefix) + Padded(name.generation) + "-" + Padded(name.step);
}

std::optional<ManifestName> ParseManifestKey(std::string_view key) {
  if (!key.starts_with(kManifestPrefix)) return std::nullopt;
  key.remove_prefix(kManifestPrefix.size());
  if (key.size() != 2 * kDigits + 1 || key[kDigits] != '-') return std::nullopt;
  const auto generation = ParsePadded(key.substr(0, kDigits));
  const auto step = ParsePadded(key.substr(kDigits + 1));
  if (!generation || !step) return std::nullopt;
  return ManifestName{*generation, *step};
}

std::string BlobKey(const storage::ContentHash& hash) {
  return std::string(kBlobPrefix) + hash.ToHex();
}

std::optional<storage::ContentHash> ParseBlobKey(std::string_view key) {
  if (!key.starts_with(kBlobPrefix)) return std::nullopt;
  const auto hash = storage::ContentHash::FromHex(key.substr(kBlobPrefix.size()));
  return hash.ok() ? std::optional(*hash) : std::nullopt;
}

}  // namespace shoal::scheduler
