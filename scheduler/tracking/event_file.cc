#include "scheduler/tracking/event_file.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <boost/crc.hpp>

namespace shoal::scheduler {
namespace {

using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// Fields of tensorflow.Event, its Summary, the summary's Value, and SessionLog.
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr std::uint64_t kSessionStart = 1;
// Types of fields on protobuf's wire.
constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

class Message {
 public:
  void Number(std::uint32_t field, std::uint64_t value) {
    Write(field, kVarint, [&](CodedOutputStream* out) { out->WriteVarint64(value); });
  }
  void Double(std::uint32_t field, double value) {
    Write(field, kFixed64, [&](CodedOutputStream* out) {
      out->WriteLittleEndian64(std::bit_cast<std::uint64_t>(value));
    });
  }
  void Float(std::uint32_t field, float value) {
    Write(field, kFixed32, [&](CodedOutputStream* out) {
      out->WriteLittleEndian32(std::bit_cast<std::uint32_t>(value));
    });
  }
  void Bytes(std::uint32_t field, std::string_view bytes) {
    Write(field, kBytes, [&](CodedOutputStream* out) {
      out->WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
      out->WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
    });
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename Value>
  void Write(std::uint32_t field, std::uint32_t type, const Value& value) {
    StringOutputStream stream(&bytes_);  // appends
    CodedOutputStream out(&stream);
    out.WriteTag(field << 3 | type);
    value(&out);
  }

  std::string bytes_;
};

// Of CRC-32C, masked as TFRecord has it.
std::uint32_t MaskedCrc(std::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  return std::rotr(crc.checksum(), 15) + 0xa282ead8u;
}

template <typename Number>
void AppendLittleEndian(Number number, std::string* to) {
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    to->push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
}

Message NewEvent(std::uint64_t at_ms) {
  Message event;
  event.Double(kWallTime, static_cast<double>(at_ms) / 1000);
  return event;
}

}  // namespace

std::string TfRecord(std::string_view data) {
  std::string record;
  AppendLittleEndian(std::uint64_t{data.size()}, &record);
  AppendLittleEndian(MaskedCrc(record), &record);
  record += data;
  AppendLittleEndian(MaskedCrc(data), &record);
  return record;
}

std::string EventFileHead(std::uint64_t at_ms) {
  Message event = NewEvent(at_ms);
  event.Bytes(kFileVersion, "brain.Event:2");
  return TfRecord(event.bytes());
}

std::string EventFileRecords(const LogEntry& entry) {
  std::string records;
  if (entry.void_from) {
    // A session that starts at a step makes TensorBoard forget what it has from there on.
    Message session;
    session.Number(kStatus, kSessionStart);
    Message event = NewEvent(entry.at_ms);
    event.Number(kStep, *entry.void_from);
    event.Bytes(kSessionLog, session.bytes());
    records += TfRecord(event.bytes());
  }
  if (entry.scalars.empty()) return records;
  Message summary;
  for (const LoggedScalar& scalar : entry.scalars) {
    Message value;
    value.Bytes(kTag, scalar.tag);
    constexpr double kMost = std::numeric_limits<float>::max();
    value.Float(kSimpleValue, static_cast<float>(std::clamp(scalar.value, -kMost, kMost)));
    summary.Bytes(kValue, value.bytes());
  }
  Message event = NewEvent(entry.at_ms);
  event.Number(kStep, entry.step);
  event.Bytes(kSummary, summary.bytes());
  return records + TfRecord(event.bytes());
}

}  // namespace shoal::scheduler
