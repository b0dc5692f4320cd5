#include "replica/methods/method_options.h"

#include <charconv>

namespace shoal::replica {

std::string Decimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  return {text, end};
}

}  // namespace shoal::replica
