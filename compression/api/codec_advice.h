// CodecAdvice: what is known to cost quality or bytes in a run's choice of codecs, in a line each.
//
// The figures come from docs/quality (training loss of a small GPT-2 against fp32). Nothing is
// refused: another model may differ. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_CODEC_ADVICE_H_
#define SHOAL_COMPRESSION_API_CODEC_ADVICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::compression {

struct CodecChoice {
  std::string_view forward, backward;  // specs that MakeCodec accepts
  std::uint32_t boundaries = 1;        // of a pipeline; 0: nothing is sent, nothing to say
  double epochs = 0;                   // visits of each sample in the run; 0: not known
  bool fresh_masks = false;            // dropout draws anew in every epoch
};

// Each "what: why; what to do instead". Specs that cannot be parsed are passed over.
std::vector<std::string> CodecAdvice(const CodecChoice& choice);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_CODEC_ADVICE_H_
