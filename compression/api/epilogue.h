// Which gradients of a step travel while nothing is left to compute behind them: the epilogue of
// the pipeline (Song et al., "Optimus-CC: Efficient Large NLP Model Training with 3D Parallelism
// Aware Communication Compression", ASPLOS 2023, section 5.2).
//
// A step has M micro-batches over S stages, 1F1B without interleaving. On link s -> s-1, the
// sender's last steady backward and its cool-down are in the epilogue: the last min(M, S - s) by
// index. Both ends know this without a message. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_EPILOGUE_H_
#define SHOAL_COMPRESSION_API_EPILOGUE_H_

#include <cstdint>

namespace shoal::compression {

// A gradient on its way from stage `stage` to the one below.
struct LinkPosition {
  std::uint32_t stages = 2;         // S, 2 or more
  std::uint32_t stage = 1;          // s of the sender, 1 to S - 1
  std::uint32_t micro_batches = 1;  // M of the step on this pipeline, 1 or more
  std::uint32_t micro_batch = 0;    // in order of backward, 0 to M - 1
};

// Gradients of link s -> s-1 in the epilogue: min(M, S - s).
std::uint32_t EpilogueCount(std::uint32_t stages, std::uint32_t micro_batches, std::uint32_t stage);

// Whether `position` is one of them.
bool InEpilogue(const LinkPosition& position);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_EPILOGUE_H_
