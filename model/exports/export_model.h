// ExportModel: a model as files that others take away: a Hugging Face directory, or a GGUF file for
// llama.cpp and what is built on it.
//
// Each kind of export is one entry of the table in export_model.cc. Blocks on disk. Thread: any one
// at a time.

#ifndef SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_
#define SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "model/exports/export_source.h"

namespace shoal::model {

// Invalid argument: a name that is not known, or an option of another kind of export.
Status CheckExportFormat(const ExportFormat& format);

// Writes the folder `path`, which must not exist or be empty; on an error nothing is there. Gives
// sentences about what comes out otherwise than in the source.
Result<std::vector<std::string>> ExportModel(const ExportSource& source, const ExportFormat& format,
                                             const std::string& path);

// The model of a directory, to be exported again.
Result<ExportSource> OpenExportSource(const std::string& directory);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_
