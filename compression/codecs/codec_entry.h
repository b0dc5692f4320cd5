// CodecEntry: what a codec registers about itself, all of it in one place.
//
// A codec defines its entry in its own .cc; the list of entries is registry/codec_registry.cc.
// Nobody finds a property of a codec by its name: whoever needs one asks the entry (or CodecTraits,
// from outside of compression/). Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODEC_ENTRY_H_
#define SHOAL_COMPRESSION_CODECS_CODEC_ENTRY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/api/codec_advice.h"
#include "compression/api/codec_spec.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

struct CodecEntry;

using PlainPointer = std::shared_ptr<const PlainCodec>;
using MessagePointer = std::shared_ptr<const MessageCodec>;
using Advice = std::vector<std::string>;

// A codec without memory that an option of another spec names.
struct NestedCodec {
  PlainPointer codec;
  const CodecEntry* entry = nullptr;
};

// Makes the codec that `outer` names by `text` as its option `key`. A composed codec gets this
// function, so that it need not know the list of codecs.
using MakeNested = Result<NestedCodec> (*)(const CodecSpec& outer, std::string_view key,
                                           std::string_view text, std::uint32_t hidden);

// The option of `aqsgd` that names the codec of changes.
inline constexpr std::string_view kChangesKey = "delta";

struct CodecEntry {
  std::string_view name;
  std::string_view usage;                              // name and options, as errors list them
  std::span<const std::string_view> keys;              // the options it takes
  std::span<const std::string_view> nested_keys = {};  // those whose values are specs of codecs

  bool entropy_coder = false;  // `+zstd` or `+rans` may follow the name
  bool exact = false;          // decodes to the values themselves, rounded to a number format
  bool keeps_m = false;        // MessageCodec::keeps_m of what it makes
  // It has a line in device/registry/device_registry.cc. A spec has a form on a device if all
  // the codecs that it nests have one, and without error feedback.
  bool device_form = false;

  // The codec that the name stands for inside of other specs; without: this one.
  const CodecEntry& (*inside)() = nullptr;
  // Only for the changes of `aqsgd`: what it leaves out of them is part of the next ones.
  bool only_changes = false;

  // One of these makes it. `make_plain`: a codec without memory, which others may nest. `make`: any
  // other one, out of nested ones.
  Result<PlainPointer> (*make_plain)(const CodecSpec& spec, std::uint32_t hidden) = nullptr;
  Result<MessagePointer> (*make)(const CodecSpec& spec, std::uint32_t hidden,
                                 MakeNested nested) = nullptr;

  // Why gradients in this spec take no error feedback, as "why; what to do"; empty: they may. An
  // entry without the function takes feedback.
  std::string_view (*no_feedback)(const CodecSpec& spec) = nullptr;
  // Why changes in this spec may grow instead of shrinking from visit to visit (it does not
  // contract), as "why; what to do"; empty: they shrink. Without: they do.
  std::string_view (*no_changes)(const CodecSpec& spec) = nullptr;
  // Whether a spec has no form on a device though the codec has one. Without: never.
  bool (*host_only)(const CodecSpec& spec) = nullptr;
  // Whether decoded values are right on average, whatever the values. Without: never.
  bool (*unbiased)(const CodecSpec& spec) = nullptr;
  // Whether decoded values are the fp32 values themselves. Without: never.
  bool (*lossless)(const CodecSpec& spec) = nullptr;
  // What is known of its cost in either direction and inside of other specs, as "why; what to do";
  // empty: nothing.
  std::string_view (*known_cost)(const CodecSpec& spec) = nullptr;
  // Adds what is known to cost quality or bytes (codec_advice.h).
  void (*advise_forward)(const CodecChoice& choice, const CodecSpec& spec,
                         Advice* advice) = nullptr;
  void (*advise_backward)(const CodecChoice& choice, const CodecSpec& spec,
                          Advice* advice) = nullptr;
};

// "forward = "SPEC": what", a line of advice.
void AddAdvice(std::string_view key, const CodecSpec& spec, const std::string& what,
               Advice* advice);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODEC_ENTRY_H_
