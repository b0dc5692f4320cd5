#include "dataset/prepare/sample_store.h"

#include <algorithm>
#include <limits>

#include "common/status.h"

namespace shoal::dataset {
namespace {

// A pair in `row` ids: the longer text gives up its end until both are equally long, then both, as
// "longest_first" of Hugging Face's tokenizers; an odd id stays with the one that was longer.
EncodedSample CutPair(const EncodedSample& encoded, std::size_t row) {
  const PairRanges& pair = *encoded.pair;
  const std::size_t first = pair.first_end - pair.first;
  const std::size_t second = pair.second_end - pair.second;
  const std::size_t around = encoded.ids.size() - first - second;
  SHOAL_CHECK(around < row);
  const std::size_t room = row - around;
  const std::size_t shorter = std::min({first, second, room / 2});
  const bool first_is_longer = first > second;
  const std::size_t kept_first = first_is_longer ? room - shorter : shorter;
  const auto at = [&encoded](std::size_t i) {
    return encoded.ids.begin() + static_cast<std::ptrdiff_t>(i);
  };
  EncodedSample cut;
  cut.ids.assign(at(0), at(pair.first + kept_first));
  cut.ids.insert(cut.ids.end(), at(pair.first_end), at(pair.second + room - kept_first));
  cut.ids.insert(cut.ids.end(), at(pair.second_end), encoded.ids.end());
  if (encoded.type_border) cut.type_border = *encoded.type_border - (first - kept_first);
  return cut;
}

}  // namespace

bool SampleStore::AddPiece(const EncodedSample& encoded, std::size_t begin, std::size_t end,
                           std::size_t tail, std::uint32_t label) {
  const auto at = [](const auto& values, std::size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(i);
  };
  if (!encoded.counts.empty()) {
    // The first token has none before it that could learn it.
    const auto first = at(encoded.counts, std::min(begin + 1, end));
    if (std::find(first, at(encoded.counts, end), 1) == at(encoded.counts, end)) return false;
    counts_.push_back(0);
    counts_.insert(counts_.end(), first, at(encoded.counts, end));
  }
  ids_.insert(ids_.end(), at(encoded.ids, begin), at(encoded.ids, end));
  ids_.insert(ids_.end(), encoded.ids.end() - static_cast<std::ptrdiff_t>(tail), encoded.ids.end());
  lengths_.push_back(static_cast<std::uint32_t>(end - begin + tail));
  // Without a second text it is where the sample ends.
  type_borders_.push_back(encoded.type_border ? static_cast<std::uint32_t>(*encoded.type_border)
                                              : lengths_.back());
  typed_ = typed_ || encoded.type_border;
  labels_.push_back(label);
  return true;
}

bool SampleStore::Add(const EncodedSample& encoded, std::uint32_t label, LongSamples long_samples) {
  const std::size_t size = encoded.ids.size();
  whole_tokens_ += size;
  whole_lengths_.push_back(static_cast<std::uint32_t>(
      std::min<std::size_t>(size, std::numeric_limits<std::uint32_t>::max())));
  bool added = false;
  std::uint64_t cut = 0;
  if (size <= row_tokens_) {
    added = size > 0 && AddPiece(encoded, 0, size, 0, label);
  } else if (encoded.pair) {
    const EncodedSample shorter = CutPair(encoded, row_tokens_);
    added = AddPiece(shorter, 0, shorter.ids.size(), 0, label);
    cut = size - row_tokens_;
  } else if (long_samples == LongSamples::kCut) {
    added = AddPiece(encoded, 0, row_tokens_ - encoded.tail, encoded.tail, label);
    cut = size - row_tokens_;
  } else {
    for (std::size_t begin = 0; begin < size; begin += row_tokens_) {
      const std::size_t end = std::min<std::size_t>(begin + row_tokens_, size);
      const bool kept = AddPiece(encoded, begin, end, 0, label);
      added = added || kept;
      if (!kept) cut += end - begin;
    }
  }
  if (added) {
    cuts_.cut_samples += cut > 0;
    cuts_.cut_tokens += cut;
  }
  cuts_.dropped_samples += !added;
  return added;
}

}  // namespace shoal::dataset
