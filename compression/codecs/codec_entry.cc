#include "compression/codecs/codec_entry.h"

namespace shoal::compression {

void AddAdvice(std::string_view key, const CodecSpec& spec, const std::string& what,
               Advice* advice) {
  advice->push_back(std::string(key) + " = \"" + std::string(spec.text) + "\": " + what);
}

}  // namespace shoal::compression
