// The grammar of codec specs: name[+coder][:key=value,...] (docs/algorithms/codec-specs.md).
// A spec inside a spec has '/' in place of ','. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_CODEC_SPEC_H_
#define SHOAL_COMPRESSION_API_CODEC_SPEC_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace shoal::compression {

// One spec, taken apart; views into the text that was parsed.
struct CodecSpec {
  std::string_view text;
  std::string_view kind;  // of spec, for messages
  std::string_view name;
  std::string_view coder;                                              // "zstd" of "direct+zstd"
  std::vector<std::pair<std::string_view, std::string_view>> options;  // in the order given

  // The value of `key`, empty if absent.
  std::string_view Option(std::string_view key) const;
  // The spec as it is written, with ',' between its options, but for those that are `left_out`.
  std::string Text(std::span<const std::string_view> left_out = {}) const;
};

inline constexpr std::size_t kSpecBytesMax = 256;
inline constexpr std::string_view kCodecKind = "codec spec", kReplicaMethodSpec = "replica method";

// `separator`: ',' or, inside a spec, '/'.
Result<CodecSpec> ParseCodecSpec(std::string_view text, char separator,
                                 std::string_view kind = kCodecKind);

// Invalid argument: "codec spec '...': what".
Status SpecError(std::string_view spec, const std::string& what,
                 std::string_view kind = kCodecKind);
Status SpecError(const CodecSpec& spec, const std::string& what);
// Error, listing `allowed`, if the spec has another option.
Status CheckKeys(const CodecSpec& spec, std::span<const std::string_view> allowed);
inline Status CheckKeys(const CodecSpec& spec, std::initializer_list<std::string_view> allowed) {
  return CheckKeys(spec, std::span(allowed.begin(), allowed.size()));
}
// Error if the spec has an entropy coder.
Status CheckNoEntropyCoder(const CodecSpec& spec);

// A whole number >= 1 without sign or leading zero, or nothing.
std::optional<std::uint32_t> SpecNumber(std::string_view text);
// The option as a whole number from `least` to `most`; an error if it is absent (and there is no
// `otherwise`) or anything else.
Result<std::uint32_t> NumberOption(const CodecSpec& spec, std::string_view key, std::uint32_t least,
                                   std::uint32_t most, std::optional<std::uint32_t> otherwise);
// The option as a decimal fraction from `least` to `most`, or `otherwise`.
Result<double> FractionOption(const CodecSpec& spec, std::string_view key, double least,
                              double most, std::optional<double> otherwise);
// The index of the option's value in `names`, 0 if absent.
Result<std::size_t> ChoiceOption(const CodecSpec& spec, std::string_view key,
                                 std::initializer_list<std::string_view> names);
// A canonical spec as it is written inside another one.
std::string Nested(std::string spec);
// The options of a canonical spec, "key=value,...": what follows its name.
std::string_view SpecOptions(std::string_view spec);
// The spec with these, "key=value,...", behind its own.
std::string WithOptions(std::string spec, std::string_view options);
// The spec without some of its own; text that is no spec stays as it is.
std::string WithoutOptions(std::string_view spec, std::initializer_list<std::string_view> keys);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_CODEC_SPEC_H_
