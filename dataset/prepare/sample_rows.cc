#include "dataset/prepare/sample_rows.h"

#include <algorithm>
#include <numeric>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/status.h"
#include "dataset/prepare/row_packing.h"

namespace shoal::dataset {
namespace {

// Writes into the parts of a payload that is all zero.
class PayloadWriter {
 public:
  PayloadWriter(const DataHeader& header, std::span<std::byte> bytes)
      : header_(header),
        ids_(bytes),
        label_map_(ids_.subspan(header.id_bytes())),
        begin_map_(label_map_.subspan(header.maps() > 0 ? header.rows() * header.map_bytes() : 0)),
        lengths_(label_map_.subspan(header.maps() * header.rows() * header.map_bytes())),
        classes_(lengths_.subspan(header.length_bytes())),
        type_borders_(classes_.subspan(header.class_bytes())) {}

  void PutToken(std::uint64_t row, std::uint32_t position, std::uint32_t id) {
    const std::uint64_t at = row * header_.row_tokens + position;
    if (header_.token_bytes() == 2) {
      StoreLittle(ids_.data() + 2 * at, static_cast<std::uint16_t>(id));
    } else {
      StoreLittle(ids_.data() + 4 * at, id);
    }
  }
  void MarkLabel(std::uint64_t row, std::uint32_t position) { Mark(label_map_, row, position); }
  void MarkBegin(std::uint64_t row, std::uint32_t position) { Mark(begin_map_, row, position); }
  void PutLength(std::uint64_t row, std::uint32_t length) {
    StoreLittle(lengths_.data() + 4 * row, length);
  }
  void PutClass(std::uint64_t row, std::uint32_t label) {
    StoreLittle(classes_.data() + 4 * row, label);
  }
  void PutTypeBorder(std::uint64_t row, std::uint32_t border) {
    StoreLittle(type_borders_.data() + 4 * row, border);
  }

 private:
  void Mark(std::span<std::byte> map, std::uint64_t row, std::uint32_t position) {
    map[row * header_.map_bytes() + position / 8] |= static_cast<std::byte>(1U << (position % 8));
  }

  const DataHeader& header_;
  const std::span<std::byte> ids_, label_map_, begin_map_, lengths_, classes_, type_borders_;
};

}  // namespace

SampleRows ArrangeRows(std::span<const std::uint32_t> lengths, std::size_t train_samples,
                       std::uint32_t row_tokens, bool pack) {
  SampleRows rows;
  for (const auto& split : {lengths.first(train_samples), lengths.subspan(train_samples)}) {
    std::vector<std::uint64_t> row_of;
    if (pack) {
      row_of = PackFirstFit(split, row_tokens);
    } else {
      row_of.resize(split.size());
      std::iota(row_of.begin(), row_of.end(), std::uint64_t{0});
    }
    const std::uint64_t first = rows.rows;
    for (const std::uint64_t row : row_of) {
      rows.row_of.push_back(first + row);
      rows.rows = std::max(rows.rows, first + row + 1);
    }
    if (first == 0 && rows.train_rows == 0) rows.train_rows = rows.rows;
  }
  return rows;
}

std::string WriteSampleRows(const SampleStore& samples, std::size_t train_samples,
                            const SampleRows& rows, DataHeader* header) {
  header->train.rows = rows.train_rows;
  header->validation.rows = rows.rows - rows.train_rows;
  const auto lengths = samples.lengths();
  const auto border = lengths.begin() + static_cast<std::ptrdiff_t>(train_samples);
  header->train.tokens = std::accumulate(lengths.begin(), border, std::uint64_t{0});
  header->validation.tokens = std::accumulate(border, lengths.end(), std::uint64_t{0});

  std::string bytes(kDataHeaderBytes + header->payload_bytes(), '\0');
  const auto payload = std::as_writable_bytes(std::span(bytes)).subspan(kDataHeaderBytes);
  PayloadWriter writer(*header, payload);
  std::vector<std::uint32_t> filled(rows.rows, 0);
  std::size_t at = 0;  // of the sample's first id
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    const std::uint64_t row = rows.row_of[sample];
    std::uint32_t& position = filled[row];
    SHOAL_CHECK(position + lengths[sample] <= header->row_tokens);
    if (header->maps() > 1) writer.MarkBegin(row, position);
    if (header->kind == DataKind::kClasses) writer.PutClass(row, samples.labels()[sample]);
    if (header->typed) writer.PutTypeBorder(row, samples.type_borders()[sample]);
    for (std::uint32_t i = 0; i < lengths[sample]; ++i, ++at, ++position) {
      writer.PutToken(row, position, static_cast<std::uint32_t>(samples.ids()[at]));
      if (header->maps() > 0 && samples.counts()[at] != 0) writer.MarkLabel(row, position);
    }
  }
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    writer.PutLength(row, filled[row]);
    for (std::uint32_t i = filled[row]; i < header->row_tokens; ++i) {
      writer.PutToken(row, i, header->padding);
    }
  }
  header->payload_checksum = Checksum64(payload);
  return bytes;
}

}  // namespace shoal::dataset
