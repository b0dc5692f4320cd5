#include "dataset/prepare/sample_reader.h"

#include <algorithm>
#include <utility>

#include "dataset/line_error.h"
#include "dataset/table_record.h"

namespace shoal::dataset {

SampleReader::SampleReader(TextFile file, const SampleColumns& columns)
    : file_(std::move(file.file)), wanted_(columns), kind_(file.kind), bytes_(file.text) {
  objects_ = JsonRecords(bytes_, kind_ == TextKind::kJsonArray);
}

Result<SampleReader> SampleReader::Open(const std::string& path, const SampleColumns& columns) {
  SHOAL_ASSIGN_OR_RETURN(TextFile file, OpenTextFile(path, ReadTables::kYes));
  SampleReader reader(std::move(file), columns);
  SHOAL_RETURN_IF_ERROR(reader.FindForm());
  return reader;
}

Status SampleReader::FindForm() {
  if (table()) return FindFormOfTable();
  if (kind_ == TextKind::kText) {
    if (wanted_.any()) {
      return InvalidArgument(
          path() +
          " is no table: --text-column, --label-column and --pair-column are for "
          "files named .csv or .tsv, and for lines of JSON");
    }
    if (!bytes_.empty()) form_ = SampleForm::kDocument;
    return Status::Ok();
  }
  JsonRecords first = objects_;
  std::string_view json;
  const Result<bool> found = first.Next(&json);
  if (!found.ok()) return LineError(path(), first.line(), found.status());
  if (!*found) return Status::Ok();
  const Result<SampleForm> form = FormOfObject(json, wanted_);
  if (!form.ok()) return LineError(path(), first.line(), form.status());
  form_ = *form;
  return Status::Ok();
}

Status SampleReader::FindFormOfTable() {
  std::vector<std::string> first;
  std::uint64_t line = 0;
  SHOAL_ASSIGN_OR_RETURN(const bool found, TakeRow(&first, &line));
  if (!found) return Status::Ok();
  const Result<TableColumns> columns = FindColumns(first, wanted_);
  if (!columns.ok()) {
    const std::string what = kind_ == TextKind::kCsv ? " is a table with commas (CSV): "
                                                     : " is a table with tabs (TSV): ";
    const bool asked = wanted_.any();
    return Status(columns.status().code(),
                  path() + what + columns.status().message() +
                      (asked ? ""
                             : "; for texts without labels write each as a line {\"text\": "
                               "\"...\"} of a .jsonl file"));
  }
  columns_ = *columns;
  form_ = SampleForm::kClass;
  if (columns_.header) return Status::Ok();
  position_ = 0;
  line_ = 1;
  return Status::Ok();
}

Result<bool> SampleReader::TakeRow(std::vector<std::string>* fields, std::uint64_t* line) {
  const TableForm form = kind_ == TextKind::kCsv ? TableForm::kCsv : TableForm::kTsv;
  while (position_ < bytes_.size()) {
    std::string_view rest = bytes_.substr(position_);
    *line = line_;
    auto record = TakeTableRecord(form, &rest);
    if (!record.ok()) return LineError(path(), line_, record.status());
    const std::size_t end = bytes_.size() - rest.size();
    line_ += static_cast<std::uint64_t>(
        std::count(bytes_.begin() + static_cast<std::ptrdiff_t>(position_),
                   bytes_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    position_ = end;
    if (record->size() == 1 && record->front().empty()) continue;
    *fields = std::move(*record);
    return true;
  }
  return false;
}

Status SampleReader::Next(std::size_t target, SampleBatch* batch, Sha256* hash) {
  *batch = {};
  // The header of a table is part of its first batch.
  const std::size_t begin = batched_;
  if (table()) {
    SHOAL_RETURN_IF_ERROR(NextRows(target, batch));
  } else if (kind_ == TextKind::kText) {
    if (position_ < bytes_.size()) batch->records.push_back({bytes_, {}, {}, 1});
    position_ = bytes_.size();
  } else {
    SHOAL_RETURN_IF_ERROR(NextObjects(target, batch));
  }
  batched_ = position_;
  batch->file_bytes = position_ - begin;
  hash->Update(bytes_.substr(begin, batch->file_bytes));
  return Status::Ok();
}

Status SampleReader::NextObjects(std::size_t target, SampleBatch* batch) {
  const std::size_t begin = position_;
  while (position_ - begin < target) {
    SampleRecord record;
    const Result<bool> more = objects_.Next(&record.json);
    position_ = objects_.position();
    record.line = objects_.line();
    if (!more.ok()) return LineError(path(), record.line, more.status());
    if (!*more) break;
    batch->records.push_back(std::move(record));
  }
  return Status::Ok();
}

Status SampleReader::NextRows(std::size_t target, SampleBatch* batch) {
  const std::size_t begin = position_;
  while (position_ - begin < target) {
    std::vector<std::string> fields;
    SampleRecord record;
    SHOAL_ASSIGN_OR_RETURN(const bool more, TakeRow(&fields, &record.line));
    if (!more) break;
    if (fields.size() != columns_.count) {
      return LineError(
          path(), record.line,
          InvalidArgument("it has " + std::to_string(fields.size()) +
                          " columns, the first record has " + std::to_string(columns_.count)));
    }
    record.text = std::move(fields[columns_.text]);
    record.label = std::move(fields[columns_.label]);
    if (columns_.pair) record.pair = std::move(fields[*columns_.pair]);
    batch->records.push_back(std::move(record));
  }
  return Status::Ok();
}

Result<RawSample> SampleReader::Parse(const SampleRecord& record) const {
  RawSample sample;
  if (table() || kind_ == TextKind::kText) {
    sample.form = table() ? SampleForm::kClass : SampleForm::kDocument;
    sample.text = table() ? record.text : std::string(record.json);
    sample.label = record.label;
    sample.pair = record.pair;
    return sample;
  }
  Result<RawSample> parsed = ParseSample(record.json, *form_, wanted_);
  if (!parsed.ok()) return LineError(path(), record.line, parsed.status());
  return parsed;
}

}  // namespace shoal::dataset
