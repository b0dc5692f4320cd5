#include "bench/bench_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "compression/api/codec.h"
#include "compression/api/codec_spec.h"

namespace shoal::bench {
namespace {

constexpr std::uint32_t kStagesMax = 64;
constexpr std::uint32_t kMicroBatchesMax = 4096;
constexpr std::uint64_t kValuesMax = 1ull << 28;
constexpr double kMillisecondsMax = 60'000;
constexpr Duration kRttMax = std::chrono::seconds(10);
constexpr Duration kStepLimitMin = std::chrono::seconds(1);
constexpr Duration kStepLimitMax = std::chrono::hours(24);
constexpr std::uint32_t kWeightPartsMax = 1024;
constexpr double kDilationMax = 64;

// Whether `text` begins with a codec's name rather than with key=value.
bool BeginsWithName(std::string_view text) {
  const std::string_view head = text.substr(0, text.find_first_of(":/,;"));
  return !head.empty() && head.find('=') == std::string_view::npos;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// At every `separator` that a codec's name follows.
std::vector<std::string_view> SplitBeforeNames(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != separator || !BeginsWithName(text.substr(i + 1))) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// "raw" is the codec without loss; an entropy coder at the end belongs behind the name.
std::string Normal(std::string_view text) {
  if (text == "raw") return compression::kLosslessCodec;
  Result<compression::CodecSpec> spec = compression::ParseCodecSpec(text, ',');
  if (!spec.ok() || !spec->coder.empty() || spec->options.empty()) return std::string(text);
  std::string_view& last = spec->options.back().second;
  const std::size_t plus = last.rfind('+');
  if (plus == std::string_view::npos) return std::string(text);
  const std::string_view coder = last.substr(plus + 1);
  const bool nested = coder.find_first_of(":/=") != std::string_view::npos;  // its own
  if (nested || coder.empty()) return std::string(text);
  spec->coder = coder;
  last = last.substr(0, plus);
  return spec->Text();
}

Result<std::uint32_t> Whole(std::string_view text, const std::string& what) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value > 0) return value;
  return InvalidArgument(what + ": '" + std::string(text) + "' is no positive whole number");
}

Status ReadShape(const std::string& text, BenchOptions* options) {
  const std::vector<std::string_view> parts = Split(text, 'x');
  if (parts.size() != 3) {
    return InvalidArgument("--shape: '" + text + "' is not ROWSxTOKENSxHIDDEN; try 1x1024x1600");
  }
  SHOAL_ASSIGN_OR_RETURN(options->rows, Whole(parts[0], "--shape"));
  SHOAL_ASSIGN_OR_RETURN(options->tokens, Whole(parts[1], "--shape"));
  SHOAL_ASSIGN_OR_RETURN(options->hidden, Whole(parts[2], "--shape"));
  const double values = static_cast<double>(options->rows) * options->tokens * options->hidden;
  if (values > kValuesMax || options->tokens < 2 || options->tokens > 65536) {
    return InvalidArgument("--shape: at most 2^28 values in a micro-batch, 2 to 65536 tokens");
  }
  return Status::Ok();
}

Status ReadTimes(const BenchArguments& arguments, BenchOptions* options) {
  options->forward_ms = arguments.forward_ms;
  options->backward_ms = arguments.backward_ms;
  options->weight_ms = arguments.weight_ms < 0 ? arguments.backward_ms / 2 : arguments.weight_ms;
  options->dilation = arguments.dilation;
  if (!(options->dilation >= 1 && options->dilation <= kDilationMax)) {
    return InvalidArgument("--dilation takes 1 to 64");
  }
  for (const double ms : {options->forward_ms, options->backward_ms}) {
    if (!(ms >= 0 && ms * options->dilation <= kMillisecondsMax)) {
      return InvalidArgument(
          "--forward-ms and --backward-ms, each times --dilation, must be between 0 and 60000");
    }
  }
  if (options->weight_ms > options->backward_ms) {
    return InvalidArgument("--weight-ms is a part of --backward-ms and must not exceed it");
  }
  options->weight_parts = arguments.weight_parts;
  if (options->weight_parts < 1 || options->weight_parts > kWeightPartsMax) {
    return InvalidArgument("--weight-parts must be between 1 and 1024");
  }
  return Status::Ok();
}

Status ReadStepLimit(const std::string& text, Duration* limit) {
  if (text.empty()) return Status::Ok();
  SHOAL_ASSIGN_OR_RETURN(*limit, ParseDuration(text));
  if (*limit >= kStepLimitMin && *limit <= kStepLimitMax) return Status::Ok();
  return InvalidArgument("takes 1s to 24h");
}

Status ReadLinks(const std::string& text, std::vector<BitsPerSecond>* links) {
  for (const std::string_view name : Split(text, ',')) {
    const Result<BitsPerSecond> rate = ParseRate(name);
    if (!rate.ok()) return rate.status().WithContext("--links");
    links->push_back(*rate);
  }
  return Status::Ok();
}

Status ReadSchedules(const std::string& text, std::vector<std::string>* schedules) {
  for (const std::string_view name : Split(text, ',')) {
    if (name != "1f1b" && name != "zero-bubble") {
      return InvalidArgument("--schedules: '" + std::string(name) +
                             "' is unknown; there are 1f1b and zero-bubble");
    }
    schedules->emplace_back(name);
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<CodecPair>> ParseCodecPairs(const std::string& text) {
  std::vector<CodecPair> pairs;
  for (const std::string_view part : Split(text, ';')) {
    for (const std::string_view pair : SplitBeforeNames(part, ',')) {
      const std::vector<std::string_view> ends = SplitBeforeNames(pair, '/');
      if (ends.size() != 2 || ends[0].empty() || ends[1].empty() || pair.ends_with(',')) {
        return InvalidArgument("--codecs: '" + std::string(pair) +
                               "' is not FORWARD/BACKWARD; try aqsgd:bits=3/direct:bits=6");
      }
      pairs.push_back({Normal(ends[0]), Normal(ends[1])});
    }
  }
  return pairs;
}

BitsPerSecond Slowed(BitsPerSecond rate, double dilation) {
  return {static_cast<std::uint64_t>(std::llround(static_cast<double>(rate.value) / dilation))};
}

BenchOptions Slowed(const BenchOptions& options) {
  BenchOptions slowed = options;
  slowed.forward_ms *= options.dilation;
  slowed.backward_ms *= options.dilation;
  slowed.weight_ms *= options.dilation;
  slowed.rtt = std::chrono::duration_cast<Duration>(options.rtt * options.dilation);
  for (BitsPerSecond& link : slowed.links) link = Slowed(link, options.dilation);
  return slowed;
}

Result<BenchOptions> ReadBenchOptions(const BenchArguments& arguments) {
  BenchOptions options;
  SHOAL_RETURN_IF_ERROR(ReadShape(arguments.shape, &options));
  SHOAL_RETURN_IF_ERROR(ReadTimes(arguments, &options));
  SHOAL_RETURN_IF_ERROR(ReadLinks(arguments.links, &options.links));
  SHOAL_ASSIGN_OR_RETURN(options.codecs, ParseCodecPairs(arguments.codecs));
  SHOAL_RETURN_IF_ERROR(ReadSchedules(arguments.schedules, &options.schedules));
  const Result<Duration> rtt = ParseDuration(arguments.rtt);
  if (!rtt.ok()) return rtt.status().WithContext("--rtt");
  if (*rtt < Duration::zero() || *rtt > kRttMax) {
    return InvalidArgument("--rtt takes 0ms to 10s");
  }
  options.rtt = *rtt;
  if (Status status = ReadStepLimit(arguments.step_limit, &options.step_limit); !status.ok()) {
    return status.WithContext("--step-limit");
  }
  options.stages = arguments.stages;
  options.micro_batches = arguments.micro_batches;
  if (options.stages < 1 || options.stages > kStagesMax || options.micro_batches < 1 ||
      options.micro_batches > kMicroBatchesMax) {
    return InvalidArgument("--stages takes 1 to 64, --micro-batches 1 to 4096");
  }
  options.epoch_steps = arguments.epoch_steps;
  options.warmup = arguments.warmup;
  options.steps = arguments.steps;
  if (options.warmup < 1 || options.steps < 1 || options.warmup + options.steps > 1000) {
    return InvalidArgument("--warmup and --steps take at least 1 each, 1000 together at most");
  }
  if (options.epoch_steps < 1 || options.epoch_steps > options.warmup) {
    return InvalidArgument(
        "--epoch-steps takes 1 to the number of --warmup steps: the measured "
        "steps are to visit samples again");
  }
  for (const double part : {arguments.change, arguments.change_decay}) {
    if (!(part >= 0 && part <= 1)) {
      return InvalidArgument("--change and --change-decay take 0 to 1");
    }
  }
  options.in_flight = arguments.in_flight;
  options.change = arguments.change;
  options.change_decay = arguments.change_decay;
  options.reference = !arguments.no_reference;
  options.namespaces = !arguments.no_namespaces;
  options.json = arguments.json;
  options.keep = arguments.keep;
  options.plot = arguments.plot;
  options.trace = arguments.trace;
  options.directory = arguments.directory;
  return options;
}

}  // namespace shoal::bench
