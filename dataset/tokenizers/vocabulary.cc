#include "dataset/tokenizers/vocabulary.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "dataset/tokenizers/byte_names.h"
#include "dataset/tokenizers/json_fields.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

// A merge line or string: two names with one space between.
bool SplitMerge(std::string_view line, NamePair* pair) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size()) return false;
  if (line.find(' ', space + 1) != std::string_view::npos) return false;
  *pair = {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
  return true;
}

}  // namespace

Status AddVocabulary(const Json& vocabulary, NameIds* ids) {
  if (!vocabulary.is_object()) {
    return InvalidArgument("the vocabulary is not an object of name to id");
  }
  for (const auto& [name, id] : vocabulary.items()) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      return InvalidArgument("the id of token " + Quoted(name) + " is not a whole number from 0");
    }
    (*ids)[name] = id.get<std::int32_t>();
  }
  return Status::Ok();
}

Result<std::vector<std::string>> NamesById(const NameIds& ids) {
  if (ids.empty()) return InvalidArgument("the vocabulary is empty");
  std::vector<std::string> names(ids.size());
  std::vector<bool> seen(ids.size(), false);
  for (const auto& [name, id] : ids) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= ids.size() || seen[index]) {
      return InvalidArgument("the " + std::to_string(ids.size()) +
                             " token ids are not 0, 1, 2, ... each once: look at id " +
                             std::to_string(id) + " of token " + Quoted(name));
    }
    seen[index] = true;
    names[index] = name;
  }
  return names;
}

Result<std::vector<NamePair>> MergesOfJson(const Json& model) {
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) {
    return InvalidArgument("model.merges is not a list");
  }
  std::vector<NamePair> pairs;
  pairs.reserve(merges->size());
  for (const Json& merge : *merges) {
    NamePair pair;
    bool fine = false;
    if (merge.is_string()) {
      fine = SplitMerge(merge.get_ref<const std::string&>(), &pair);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair = {merge[0].get<std::string>(), merge[1].get<std::string>()};
      fine = true;
    }
    if (!fine) {
      return InvalidArgument("merge " + std::to_string(pairs.size() + 1) +
                             " is neither \"left right\" nor [\"left\", \"right\"]");
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<std::vector<NamePair>> MergesOfText(std::string_view text) {
  std::vector<NamePair> pairs;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    NamePair pair;
    if (!SplitMerge(line, &pair)) {
      return InvalidArgument("line " + std::to_string(number) +
                             " of the merges is not \"left right\"");
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Status AddMerges(const std::vector<NamePair>& pairs, const NameIds& ids, BpeModel* model) {
  std::unordered_set<std::uint64_t> seen;
  model->merges.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [left, right] = pairs[i];
    const std::string where =
        "merge " + std::to_string(i + 1) + " (" + Quoted(left) + " " + Quoted(right) + ")";
    const auto left_id = ids.find(left);
    const auto right_id = ids.find(right);
    const auto merged_id = ids.find(left + right);
    if (left_id == ids.end() || right_id == ids.end() || merged_id == ids.end()) {
      return InvalidArgument(where +
                             " names or makes a token that the vocabulary lacks: vocabulary "
                             "and merges are not of the same tokenizer");
    }
    const std::uint64_t key = static_cast<std::uint64_t>(left_id->second) << 32 |
                              static_cast<std::uint32_t>(right_id->second);
    if (!seen.insert(key).second) return InvalidArgument(where + " is listed twice");
    model->merges.push_back(
        {left_id->second, right_id->second, merged_id->second, static_cast<std::uint32_t>(i)});
  }
  return Status::Ok();
}

Result<std::array<std::int32_t, 256>> ByteLevelIds(const NameIds& ids) {
  std::array<std::int32_t, 256> bytes{};
  const auto& alphabet = ByteLevelAlphabet();
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte) {
    const auto found = ids.find(alphabet[byte]);
    if (found == ids.end()) {
      return InvalidArgument("the vocabulary has no token for byte " + std::to_string(byte) +
                             ": byte-level BPE needs all 256 bytes, as GPT-2 has them");
    }
    bytes[byte] = found->second;
  }
  return bytes;
}

std::array<std::int32_t, 256> FallbackIds(const NameIds& ids) {
  std::array<std::int32_t, 256> bytes{};
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    const auto found = ids.find(FallbackName(static_cast<std::uint8_t>(byte)));
    bytes[byte] = found == ids.end() ? -1 : found->second;
  }
  return bytes;
}

}  // namespace shoal::dataset
