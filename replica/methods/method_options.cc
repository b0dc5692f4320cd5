#include "replica/methods/method_options.h"

#include <charconv>

namespace shoal::replica {

std::string Decimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  return {text, end};
}

Result<std::uint32_t> StartOption(const compression::CodecSpec& spec) {
  const auto text = spec.Option("start");
  if (text.empty() || text == "auto") return 0U;
  return NumberOption(spec, "start", 1, kStartMax, 0);
}

std::string StartText(std::uint64_t start) { return start == 0 ? "auto" : std::to_string(start); }

}  // namespace shoal::replica
