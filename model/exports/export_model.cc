#include "model/exports/export_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/exports/gguf_export.h"
#include "model/families/open_model.h"
#include "storage/files/foreign_text.h"
#include "storage/models/float_bytes.h"
#include "storage/models/model_export.h"

namespace shoal::model {
namespace {

using Notes = std::vector<std::string>;

Result<Notes> ExportDirectory(const ExportSource& source, const ExportFormat& format,
                              const std::string& path) {
  storage::ExportOptions options;
  options.path = path;
  options.config_json = source.spec.json;
  options.dtypes = source.dtypes;
  if (const auto all = storage::FloatOfOption(format.dtype)) {
    for (const storage::NamedTensor& tensor : source.tensors.list) {
      options.dtypes[tensor.name] = *all;
    }
  }
  options.extra_files = source.files;
  options.model_card = source.model_card;
  SHOAL_RETURN_IF_ERROR(
      storage::ExportModelDirectory(LayoutOf(source.spec), source.tensors, options));
  return Notes();
}

Result<Notes> ExportAdapter(const ExportSource& source, const ExportFormat& format,
                            const std::string& path) {
  static_cast<void>(format);
  SHOAL_RETURN_IF_ERROR(WriteAdapter(*source.adapter, source.spec, source.model_card, path));
  return Notes();
}

struct ExportKind {
  const char* name;
  bool takes_dtype, takes_type;
  bool of_adapters;  // alone
  Result<Notes> (*write)(const ExportSource& source, const ExportFormat& format,
                         const std::string& path);
};

constexpr ExportKind kKinds[] = {{"directory", true, false, false, ExportDirectory},
                                 {"merged", true, false, true, ExportDirectory},
                                 {"adapter", false, false, true, ExportAdapter},
                                 {"gguf", false, true, false, ExportGguf}};

const ExportKind* KindOf(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name, &ExportKind::name);
  return found == std::end(kKinds) ? nullptr : found;
}

}  // namespace

Status CheckExportFormat(const ExportFormat& format) {
  const ExportKind* const kind = KindOf(format.as);
  if (kind == nullptr) {
    std::string known;
    for (const ExportKind& each : kKinds)
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    return InvalidArgument("there is no export as " + storage::Quoted(format.as) +
                           "; there are: " + known);
  }
  if (!format.dtype.empty() && !kind->takes_dtype) {
    return InvalidArgument("--as " + format.as +
                           " has no --dtype: that is of directory and merged" +
                           std::string(kind->takes_type ? "; it has --type" : ""));
  }
  if (!format.type.empty() && !kind->takes_type) {
    return InvalidArgument("--as " + format.as + " has no --type: that is of gguf" +
                           std::string(kind->takes_dtype ? "; it has --dtype" : ""));
  }
  if (!format.dtype.empty() && !storage::FloatOfOption(format.dtype)) {
    return InvalidArgument("--dtype is fp32, bf16 or fp16, not " + storage::Quoted(format.dtype));
  }
  if (!format.type.empty() && !GgufTypeOf(format.type)) {
    return InvalidArgument("--type is f16 or q8_0, not " + storage::Quoted(format.type));
  }
  return Status::Ok();
}

Result<Notes> ExportModel(const ExportSource& source, const ExportFormat& format,
                          const std::string& path) {
  SHOAL_RETURN_IF_ERROR(CheckExportFormat(format));
  const ExportKind& kind = *KindOf(format.as);
  if (kind.of_adapters && !source.adapter) {
    return FailedPrecondition("there is no adapter to export as " + format.as +
                              ": all of the model was trained; take --as directory");
  }
  return kind.write(source, format, path);
}

Result<ExportSource> OpenExportSource(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(directory));
  ExportSource source;
  source.spec = std::move(opened.spec);
  source.folder = directory;
  source.files = opened.directory->TokenizerFiles();
  SHOAL_ASSIGN_OR_RETURN(source.tensors, storage::TensorsOf(std::move(opened.directory)));
  for (const storage::NamedTensor& tensor : source.tensors.list) {
    SHOAL_RETURN_IF_ERROR(storage::CheckFinite(tensor.name, tensor.view).WithContext(directory));
  }
  return source;
}

}  // namespace shoal::model
