// A file of samples: tables and JSON, cut into records, and what each one holds.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/json_records.h"
#include "dataset/prepare/raw_sample.h"
#include "dataset/prepare/table_columns.h"
#include "dataset/table_record.h"

namespace {

using shoal::dataset::SampleForm;

void ReadTable(shoal::dataset::TableForm form, std::string_view text) {
  while (!text.empty()) {
    const std::size_t before = text.size();
    const auto fields = TakeTableRecord(form, &text);
    if (!fields.ok()) return;
    if (text.size() >= before || fields->empty()) std::abort();
    const auto columns = shoal::dataset::FindColumns(*fields, {});
    if (!columns.ok()) continue;
    for (const std::size_t column :
         {columns->text, columns->label, columns->pair.value_or(columns->text)}) {
      if (column >= fields->size()) std::abort();
    }
  }
}

void ReadJson(std::string_view bytes, bool array) {
  shoal::dataset::JsonRecords records(bytes, array);
  std::string_view json;
  for (std::size_t before = 0;; before = records.position()) {
    const auto more = records.Next(&json);
    if (!more.ok() || !*more) return;
    if (records.position() <= before || records.position() > bytes.size()) std::abort();
    const auto form = shoal::dataset::FormOfObject(json, {});
    if (!form.ok()) continue;
    const auto sample = shoal::dataset::ParseSample(json, *form, {});
    if (sample.ok() && sample->form != *form) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ReadTable(shoal::dataset::TableForm::kCsv, bytes);
  ReadTable(shoal::dataset::TableForm::kTsv, bytes);
  ReadJson(bytes, false);
  ReadJson(bytes, true);
  return 0;
}
