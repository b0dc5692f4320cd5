// BucketSection: writes and reads a section of bucket codes block by block, so that aqsgd
// subtracts, codes and adds while a block is in the L1 cache.
//
// header | scales of all samples | codes: of each sample packed, or of all one code stream
// (symbol_stream.h). Internal to compression/. Thread: any, one object at a time.

#ifndef SHOAL_COMPRESSION_CODECS_BUCKET_SECTION_H_
#define SHOAL_COMPRESSION_CODECS_BUCKET_SECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/bucket_code.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

struct BucketFormat {
  BucketCode code;
  EntropyCoder coder = EntropyCoder::kNone;
  std::string spec;
  CodecId id = CodecId::kDirect;

  std::size_t BytesMax(SampleShape shape, std::size_t samples) const;
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const;
};

class BucketWriter {
 public:
  // `format` and `out` (at least BytesMax) outlive the writer.
  BucketWriter(const BucketFormat& format, SampleShape shape, std::size_t samples,
               const RandomKey& key, std::span<std::byte> out);

  // Codes values [first, first + count) of a sample; `first` is a multiple of BlockValues. Error if
  // one is not finite or exceeds `most`.
  Status Block(std::size_t sample, std::size_t first, std::size_t count, const float* x,
               float most);
  // The levels of the block coded last, as many as it had.
  void Levels(float* x) const;
  // After the last block: the bytes of the section.
  std::size_t Finish();

 private:
  const BucketFormat& format_;
  const SampleShape shape_;
  const std::size_t samples_;
  const RandomKey key_;
  const std::span<std::byte> out_;
  // Of a block; with an entropy coder, of all samples.
  Buffer codes_;
  std::vector<float> noise_;
  // The last block.
  const std::uint8_t* block_codes_ = nullptr;
  const std::byte* block_scales_ = nullptr;
  std::size_t block_count_ = 0;
};

class BucketReader {
 public:
  BucketReader(const BucketFormat& format, SampleShape shape, std::size_t samples)
      : format_(format), shape_(shape), samples_(samples) {}

  // Checks all of `payload`, which outlives the reader.
  Status Open(std::span<const std::byte> payload);
  // With an entropy coder: the codes of all samples.
  std::span<const std::uint8_t> codes() const { return AsCodes(codes_.bytes()); }
  // The levels of a block.
  void Levels(std::size_t sample, std::size_t first, std::size_t count, float* x);

 private:
  const BucketFormat& format_;
  const SampleShape shape_;
  const std::size_t samples_;
  const std::byte* scales_ = nullptr;
  const std::byte* packed_ = nullptr;
  Buffer codes_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_BUCKET_SECTION_H_
