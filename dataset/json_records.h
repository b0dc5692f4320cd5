// JsonRecords: the objects of a JSON lines file or of one JSON array, as text.

#ifndef SHOAL_DATASET_JSON_RECORDS_H_
#define SHOAL_DATASET_JSON_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// Finds where objects begin and end; that they are well-formed is for who parses them. Thread: one
// at a time.
class JsonRecords {
 public:
  JsonRecords() = default;
  // `bytes` outlive the object. Of lines each one that is not blank is a record, whatever it holds.
  JsonRecords(std::string_view bytes, bool array) : bytes_(bytes), array_(array) {}

  // Sets *record to the next one; false at the end. An invalid argument says what is wrong with an
  // array.
  Result<bool> Next(std::string_view* record);
  // Where the record or the error is, from 1.
  std::uint64_t line() const { return line_; }
  // Bytes read so far.
  std::size_t position() const { return position_; }

 private:
  bool NextLine(std::string_view* record);
  Result<bool> NextElement(std::string_view* record);
  // Moves to `to`, counting lines.
  void MoveTo(std::size_t to);
  // The next character that is no white space; 0 at the end.
  char Peek();

  std::string_view bytes_;
  bool array_ = false;
  bool opened_ = false;  // the array's bracket was read
  bool first_ = true;    // no element was read yet
  bool closed_ = false;
  std::size_t position_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t next_line_ = 1;  // the line that `position_` is in
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_JSON_RECORDS_H_
