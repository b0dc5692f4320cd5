// SampleStore: the samples of a run of `shoal prepare`, cut to what a row holds, one behind the
// other in memory.

#ifndef SHOAL_DATASET_PREPARE_SAMPLE_STORE_H_
#define SHOAL_DATASET_PREPARE_SAMPLE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataset/prepare/sample_encoder.h"

namespace shoal::dataset {

// What becomes of a sample that is longer than a row.
enum class LongSamples : std::uint8_t {
  kCut,     // its end is dropped, but for its tail; of a pair the longer text's end
  kDivide,  // it goes on as the next sample
};

// What did not get into rows as it was.
struct CutCounts {
  std::uint64_t cut_samples = 0;
  std::uint64_t cut_tokens = 0;       // dropped from them
  std::uint64_t dropped_samples = 0;  // without a label
};

class SampleStore {
 public:
  explicit SampleStore(std::uint32_t row_tokens) : row_tokens_(row_tokens) {}

  // A sample without counts needs none: it has a class, `label`. Others are dropped if nothing in
  // them counts. False if it was dropped. Of a sample that is cut,
  // `encoded.tail` is less than row_tokens, and what stands around a pair leaves two ids of them.
  bool Add(const EncodedSample& encoded, std::uint32_t label, LongSamples long_samples);

  // Puts class_of[label] in place of each label.
  void MapLabels(std::span<const std::uint32_t> class_of) {
    for (std::uint32_t& label : labels_) label = class_of[label];
  }

  std::size_t size() const { return lengths_.size(); }
  // 1 .. row_tokens of each.
  std::span<const std::uint32_t> lengths() const { return lengths_; }
  std::span<const std::uint32_t> labels() const { return labels_; }
  // Whether a sample has token types, and where in each the type 1 begins: 1 .. its length.
  bool typed() const { return typed_; }
  std::span<const std::uint32_t> type_borders() const { return type_borders_; }
  std::span<const std::int32_t> ids() const { return ids_; }        // of all
  std::span<const std::uint8_t> counts() const { return counts_; }  // of all; none of classes
  // Of the samples that were given, before they were cut; dropped ones, too.
  std::span<const std::uint32_t> whole_lengths() const { return whole_lengths_; }
  std::uint64_t whole_tokens() const { return whole_tokens_; }
  const CutCounts& cuts() const { return cuts_; }

 private:
  // Ids [begin, end) of the sample and its tail; false if nothing in them counts.
  bool AddPiece(const EncodedSample& encoded, std::size_t begin, std::size_t end, std::size_t tail,
                std::uint32_t label);

  const std::uint32_t row_tokens_;
  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> counts_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::uint32_t> type_borders_;
  bool typed_ = false;
  std::vector<std::uint32_t> whole_lengths_;
  std::uint64_t whole_tokens_ = 0;
  CutCounts cuts_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_SAMPLE_STORE_H_
