#include "storage/files/foreign_text.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "common/nesting.h"

namespace shoal::storage {
namespace {

// Stops at the first key that its object has already.
class KeyReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::optional<std::string>& repeated() const { return repeated_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    repeated_ = name;
    return false;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> open_;  // the keys of each object around
  std::optional<std::string> repeated_;
};

}  // namespace

std::string Quoted(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string quoted = "'";
  for (const char c : name.substr(0, kLongest)) {
    quoted.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  }
  if (name.size() > kLongest) quoted += "...";
  quoted.push_back('\'');
  return quoted;
}

Status CheckJsonDepth(std::string_view text, std::size_t max_depth, const std::string& name) {
  if (JsonNestsDeeper(text, max_depth)) {
    return InvalidArgument(name + " nests deeper than " + std::to_string(max_depth) +
                           " levels; no such file is written by a known program");
  }
  return Status::Ok();
}

Status CheckRepeatedKeys(std::string_view text, const std::string& name) {
  KeyReader reader;
  // False is no JSON or a repeated key; the first is the caller's question.
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &reader) || !reader.repeated()) {
    return Status::Ok();
  }
  return InvalidArgument(name + " has the key " + Quoted(*reader.repeated()) +
                         " twice, and programs disagree on which one counts; remove one");
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

}  // namespace shoal::storage
