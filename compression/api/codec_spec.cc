#include "compression/api/codec_spec.h"

#include <algorithm>
#include <charconv>

#include "common/command_line/spelling.h"

namespace shoal::compression {
namespace {

std::string Join(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) {
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

// "no bits given" or "bits=9".
std::string Given(std::string_view key, std::string_view value) {
  if (value.empty()) return "no " + std::string(key) + " given";
  return std::string(key) + "=" + std::string(value);
}

std::string Decimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

}  // namespace

std::string_view CodecSpec::Option(std::string_view key) const {
  for (const auto& [option, value] : options) {
    if (option == key) return value;
  }
  return {};
}

std::string CodecSpec::Text(std::span<const std::string_view> left_out) const {
  std::string written(name);
  if (!coder.empty()) written += "+" + std::string(coder);
  char before = ':';
  for (const auto& [key, value] : options) {
    if (std::find(left_out.begin(), left_out.end(), key) != left_out.end()) continue;
    written += before + std::string(key) + "=" + std::string(value);
    before = ',';
  }
  return written;
}

Status SpecError(std::string_view spec, const std::string& what, std::string_view kind) {
  return InvalidArgument(std::string(kind) + " '" + std::string(spec.substr(0, kSpecBytesMax)) +
                         "': " + what);
}

Status SpecError(const CodecSpec& spec, const std::string& what) {
  return SpecError(spec.text, what, spec.kind);
}

Result<CodecSpec> ParseCodecSpec(std::string_view text, char separator, std::string_view kind) {
  if (text.size() > kSpecBytesMax) {
    return SpecError(text.substr(0, 32), "longer than " + std::to_string(kSpecBytesMax) + " bytes",
                     kind);
  }
  CodecSpec parsed;
  parsed.text = text;
  parsed.kind = kind;
  const std::size_t colon = text.find(':');
  parsed.name = text.substr(0, colon);
  if (const std::size_t plus = parsed.name.find('+'); plus != std::string_view::npos) {
    parsed.coder = parsed.name.substr(plus + 1);
    parsed.name = parsed.name.substr(0, plus);
    if (parsed.coder.empty()) return SpecError(parsed, "nothing behind '+'");
  }
  if (colon == std::string_view::npos) return parsed;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t end = rest.find(separator);
    const std::string_view option = rest.substr(0, end);
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == option.size()) {
      return SpecError(parsed, "'" + std::string(option) + "' is not key=value; write " +
                                   "name:key=value" + separator + "key=value");
    }
    const std::string_view key = option.substr(0, equals);
    if (!parsed.Option(key).empty()) {
      return SpecError(parsed, "option '" + std::string(key) + "' is given twice");
    }
    parsed.options.emplace_back(key, option.substr(equals + 1));
    if (end == std::string_view::npos) return parsed;
    rest = rest.substr(end + 1);
  }
}

Status CheckKeys(const CodecSpec& spec, std::span<const std::string_view> allowed) {
  for (const auto& [key, value] : spec.options) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    return SpecError(spec, "unknown option '" + std::string(key) + "'" +
                               DidYouMean(key, {allowed.begin(), allowed.end()}) + "; " +
                               std::string(spec.name) + " knows " + Join(allowed));
  }
  return Status::Ok();
}

Status CheckNoEntropyCoder(const CodecSpec& spec) {
  if (spec.coder.empty()) return Status::Ok();
  return SpecError(spec, std::string(spec.name) + " takes no entropy coder; leave '+" +
                             std::string(spec.coder) + "' out");
}

std::optional<std::uint32_t> SpecNumber(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '0') return {};
  return value;
}

Result<std::uint32_t> NumberOption(const CodecSpec& spec, std::string_view key, std::uint32_t least,
                                   std::uint32_t most, std::optional<std::uint32_t> otherwise) {
  const std::string_view text = spec.Option(key);
  if (text.empty() && otherwise) return *otherwise;
  const auto number = text.empty() ? std::nullopt : SpecNumber(text);
  if (number && *number >= least && *number <= most) return *number;
  const std::string name(key);
  return SpecError(spec, Given(key, text) + "; allowed are " + name + "=" + std::to_string(least) +
                             " to " + name + "=" + std::to_string(most));
}

Result<double> FractionOption(const CodecSpec& spec, std::string_view key, double least,
                              double most, std::optional<double> otherwise) {
  const std::string_view text = spec.Option(key);
  if (text.empty() && otherwise) return *otherwise;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  return SpecError(spec,
                   Given(key, text) + "; allowed are " + Decimal(least) + " to " + Decimal(most));
}

Result<std::size_t> ChoiceOption(const CodecSpec& spec, std::string_view key,
                                 std::initializer_list<std::string_view> names) {
  const std::string_view text = spec.Option(key);
  if (text.empty()) return std::size_t{0};
  const auto* const found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return SpecError(
      spec, Given(key, text) + "; allowed are " + Join(std::span(names.begin(), names.size())));
}

std::string Nested(std::string spec) {
  std::replace(spec.begin(), spec.end(), ',', '/');
  return spec;
}

std::string_view SpecOptions(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  return colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
}

std::string WithOptions(std::string spec, std::string_view options) {
  spec += SpecOptions(spec).empty() ? ':' : ',';
  return spec.append(options);
}

std::string WithoutOptions(std::string_view spec, std::initializer_list<std::string_view> keys) {
  const Result<CodecSpec> parsed = ParseCodecSpec(spec, ',');
  if (!parsed.ok()) return std::string(spec);
  return parsed->Text(std::span(keys.begin(), keys.size()));
}

}  // namespace shoal::compression
