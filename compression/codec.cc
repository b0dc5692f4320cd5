// MakeCodec: the spec grammar (docs/ALGORITHMS.md, "Codec specs").

#include "compression/codec.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "compression/aqsgd_codec.h"
#include "compression/bucket_code.h"
#include "compression/direct_codec.h"
#include "compression/raw_codec.h"
#include "compression/sample_layout.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kHiddenMax = 1U << 20;
constexpr std::size_t kSpecBytesMax = 256;
constexpr int kBitsMin = 2;
constexpr int kBitsMax = 8;

// One spec, taken apart: the name and its options in the order given.
struct ParsedSpec {
  std::string_view text;
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> options;
};

Status SpecError(std::string_view spec, const std::string& what) {
  return InvalidArgument("codec spec '" + std::string(spec.substr(0, kSpecBytesMax)) +
                         "': " + what);
}

// name[:key=value,key=value...]; `separator` stands for the comma inside a nested spec.
Result<ParsedSpec> Parse(std::string_view text, char separator) {
  if (text.size() > kSpecBytesMax) {
    return SpecError(text.substr(0, 32), "longer than " + std::to_string(kSpecBytesMax) + " bytes");
  }
  ParsedSpec parsed;
  parsed.text = text;
  const std::size_t colon = text.find(':');
  parsed.name = text.substr(0, colon);
  if (colon == std::string_view::npos) return parsed;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t end = rest.find(separator);
    const std::string_view option = rest.substr(0, end);
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == option.size()) {
      return SpecError(text, "'" + std::string(option) + "' is not key=value; write " +
                                 "name:key=value" + separator + "key=value");
    }
    const std::string_view key = option.substr(0, equals);
    for (const auto& [seen, value] : parsed.options) {
      if (seen == key) return SpecError(text, "option '" + std::string(key) + "' is given twice");
    }
    parsed.options.emplace_back(key, option.substr(equals + 1));
    if (end == std::string_view::npos) return parsed;
    rest = rest.substr(end + 1);
  }
}

// The value of `key`, empty if absent.
std::string_view Option(const ParsedSpec& spec, std::string_view key) {
  for (const auto& [name, value] : spec.options) {
    if (name == key) return value;
  }
  return {};
}

Status CheckKeys(const ParsedSpec& spec, std::initializer_list<std::string_view> allowed) {
  for (const auto& [key, value] : spec.options) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    std::string list;
    for (const std::string_view name : allowed) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    return SpecError(spec.text, "unknown option '" + std::string(key) + "'; " +
                                    std::string(spec.name) + " knows " + list);
  }
  return Status::Ok();
}

// A plain decimal number without sign or leading zero, or nothing.
std::optional<std::uint32_t> Number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '0') return {};
  return value;
}

Result<BucketCode> ParseBucketCode(const ParsedSpec& spec, std::uint32_t hidden) {
  const std::string_view bits_text = Option(spec, "bits");
  const auto bits = bits_text.empty() ? std::nullopt : Number(bits_text);
  if (!bits || *bits < kBitsMin || *bits > kBitsMax) {
    return SpecError(spec.text, (bits_text.empty() ? std::string("no bits given")
                                                   : "bits=" + std::string(bits_text)) +
                                    "; allowed are bits=2 to bits=8");
  }
  std::uint32_t bucket = DefaultBucket(hidden);
  if (const std::string_view text = Option(spec, "bucket"); !text.empty()) {
    const auto number = Number(text);
    if (!number || hidden % *number != 0) {
      return SpecError(spec.text, "bucket=" + std::string(text) +
                                      " does not divide the hidden size " + std::to_string(hidden) +
                                      "; allowed are " + BucketsAllowed(hidden));
    }
    bucket = *number;
  }
  return BucketCode(static_cast<int>(*bits), bucket);
}

Result<std::shared_ptr<const SampleCodec>> MakeRaw(const ParsedSpec& spec, bool first_visit) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"dtype"}));
  const std::string_view type = Option(spec, "dtype");
  if (type == "fp32") return NewRawCodec(ValueType::kFp32, first_visit);
  if (type == "fp16") return NewRawCodec(ValueType::kFp16, first_visit);
  if (type == "bf16") return NewRawCodec(ValueType::kBf16, first_visit);
  return SpecError(spec.text,
                   (type.empty() ? std::string("no dtype given") : "dtype=" + std::string(type)) +
                       "; allowed are dtype=fp32, dtype=fp16, dtype=bf16");
}

Result<std::shared_ptr<const SampleCodec>> MakeDirect(const ParsedSpec& spec, std::uint32_t hidden,
                                                      bool first_visit) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bits", "bucket"}));
  SHOAL_ASSIGN_OR_RETURN(const BucketCode code, ParseBucketCode(spec, hidden));
  return NewDirectCodec(code, first_visit);
}

Result<std::shared_ptr<const SampleCodec>> MakeAqsgd(const ParsedSpec& spec, std::uint32_t hidden) {
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"bits", "bucket", "first_visit"}));
  SHOAL_ASSIGN_OR_RETURN(const BucketCode code, ParseBucketCode(spec, hidden));
  std::string_view nested_text = Option(spec, "first_visit");
  if (nested_text.empty()) nested_text = "raw:dtype=fp16";
  SHOAL_ASSIGN_OR_RETURN(const ParsedSpec nested, Parse(nested_text, '/'));
  Result<std::shared_ptr<const SampleCodec>> first = SpecError(
      spec.text, "first_visit=" + std::string(nested_text) +
                     "; allowed are first_visit=raw:dtype=... and first_visit=direct:bits=..., " +
                     "further options after '/', as in direct:bits=8/bucket=64");
  if (nested.name == "raw") first = MakeRaw(nested, true);
  if (nested.name == "direct") first = MakeDirect(nested, hidden, true);
  if (!first.ok()) {
    if (nested.name != "raw" && nested.name != "direct") return first.status();
    return first.status().WithContext("first_visit of '" + std::string(spec.text) + "'");
  }
  return NewAqsgdCodec(code, std::move(first).value());
}

}  // namespace

Result<std::shared_ptr<const SampleCodec>> MakeCodec(std::string_view spec, std::uint32_t hidden) {
  if (hidden < 1 || hidden > kHiddenMax) {
    return InvalidArgument("codec: hidden size " + std::to_string(hidden) +
                           " is outside 1 to 1048576");
  }
  SHOAL_ASSIGN_OR_RETURN(const ParsedSpec parsed, Parse(spec, ','));
  if (parsed.name == "raw") return MakeRaw(parsed, false);
  if (parsed.name == "direct") return MakeDirect(parsed, hidden, false);
  if (parsed.name == "aqsgd") return MakeAqsgd(parsed, hidden);
  return SpecError(spec,
                   "unknown codec '" + std::string(parsed.name) +
                       "'; known are raw:dtype=fp32|fp16|bf16, direct:bits=2..8[,bucket=N], "
                       "aqsgd:bits=2..8[,bucket=N][,first_visit=raw:dtype=...|direct:bits=...]");
}

}  // namespace shoal::compression
