#include "model/init_weights.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/file.h"
#include "common/memory/buffer.h"
#include "common/units.h"
#include "model/families/family.h"
#include "model/families/fresh_weights.h"
#include "model/families/open_model.h"
#include "storage/models/model_export.h"

namespace shoal::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kConfigBytesMax = 1 << 20;
constexpr std::array<const char*, 12> kTokenizerFiles = {"tokenizer.json",
                                                         "chat_template.jinja",
                                                         "vocab.json",
                                                         "merges.txt",
                                                         "encoder.json",
                                                         "vocab.bpe",
                                                         "added_tokens.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "tokenizer.model",
                                                         "spm.model",
                                                         "generation_config.json"};

// Removes the folder of intermediate part files in every case.
class PartFolder {
 public:
  explicit PartFolder(std::string path) : path_(std::move(path)) {}
  ~PartFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  PartFolder(const PartFolder&) = delete;
  PartFolder& operator=(const PartFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

Status WriteInitialPart(const ModelSpec& spec, const std::string& part, std::uint64_t seed,
                        const std::string& path) {
  std::vector<Buffer> buffers;  // keeps the values alive
  storage::TensorMap tensors;
  for (const auto& [name, tensor] : spec.PartTensors(part)) {
    std::size_t count = 1;
    for (std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
    buffers.emplace_back(count * sizeof(float));
    InitTensor(tensor, name, seed, buffers.back().floats());
    const std::span<const std::byte> bytes = std::as_const(buffers.back()).bytes();
    tensors[name] = {storage::DType::kF32, tensor.shape, bytes};
  }
  return storage::WritePart(path, tensors);
}

}  // namespace

Status InitModelDirectory(const std::string& config_path, const std::string& output,
                          std::uint64_t seed) {
  SHOAL_ASSIGN_OR_RETURN(const std::string json, ReadFile(config_path, kConfigBytesMax));
  SHOAL_ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(json, config_path));
  std::error_code error;
  if (fs::exists(output, error) && !fs::is_empty(output, error)) {
    return AlreadyExists(output + " exists and is not empty; nothing was written, name another");
  }
  const std::uint64_t bytes = spec.ParametersOf(0, spec.layers(), true, true) * sizeof(float);
  const fs::path parent = fs::absolute(output, error).parent_path();
  const fs::space_info space = fs::space(fs::exists(parent, error) ? parent : fs::path("/"), error);
  // The parts, and the directory that is made of them.
  if (!error && 2 * bytes > space.available) {
    return ResourceExhausted("the model has " + FormatBytes(bytes) +
                             " of weights, and making it "
                             "takes twice that on a disk with " +
                             FormatBytes(space.available) +
                             " free: take a smaller config.json or another disk");
  }
  std::string base = output;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  const PartFolder folder(base + ".init-parts");
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder.path()));
  storage::ExportOptions options;
  options.path = base;
  options.config_json = json;
  std::vector<std::string> part_files;
  for (const std::string& part : spec.PartNames()) {
    part_files.push_back(folder.path() + "/" + part + ".safetensors");
    SHOAL_RETURN_IF_ERROR(WriteInitialPart(spec, part, seed, part_files.back()));
  }
  const fs::path beside = fs::path(config_path).parent_path();
  for (const char* name : kTokenizerFiles) {
    if (fs::exists(beside / name, error)) options.extra_files.push_back((beside / name).string());
  }
  options.model_card = "# Fresh weights\n\nRandom weights for config.json with seed " +
                       std::to_string(seed) + "; not trained.\n";
  const storage::ModelLayout layout = LayoutOf(spec);
  SHOAL_ASSIGN_OR_RETURN(const storage::ModelTensors tensors,
                         storage::OpenParts(layout, part_files));
  return storage::ExportModelDirectory(layout, tensors, options);
}

}  // namespace shoal::model
