// StateFiles: state that a stage keeps in files instead of memory. The files that it was loaded
// from are read in place. State to be saved is collected piece by piece.
//
// So a stage whose optimizer state lives in shards elsewhere loads and saves all of it without ever
// holding it. Thread: compute.

#ifndef SHOAL_MODEL_STATE_FILES_H_
#define SHOAL_MODEL_STATE_FILES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "model/flat_parameters.h"
#include "model/stage_model.h"
#include "storage/models/safetensors.h"
#include "storage/models/tensor_file.h"

namespace shoal::model {

class StateFiles {
 public:
  // Collects in `folder`, which is this object's alone and goes with it. Of the moments, and of the
  // weights if `weights`.
  StateFiles(std::string folder, const std::vector<ParameterEntry>& entries,
             const std::vector<StagePart>& parts, bool weights);
  ~StateFiles();
  StateFiles(const StateFiles&) = delete;
  StateFiles& operator=(const StateFiles&) = delete;

  // From now on Read gives what this file has of a part's weights or else its moments; null: zeros.
  // The file was checked (FlatParameters::CheckPart, CheckOptimizerPart).
  void SetSource(std::size_t part, bool weights,
                 std::shared_ptr<const storage::SafetensorsFile> file);

  // Values [first, first + values.size()) of a vector; the caller has checked the range. Throws
  // what LibTorch throws.
  Status Read(StateVector which, std::size_t first, std::span<float> values) const;
  // Puts them where MoveTo finds them; Read does not change. Each value once between two MoveTo.
  Status Write(StateVector which, std::size_t first, std::span<const float> values);
  // Forgets what was written.
  void Drop();
  // Moves the files of all parts to `folder`, of the same file system: the same bytes as
  // FlatParameters::SavePart writes. An error if not all values were written.
  Status MoveTo(const std::string& folder);
  // XXH3-64 over all weights that were written, tensor by tensor; 0 if some were not.
  std::uint64_t WeightChecksum() const;

 private:
  // Of a part: weights, or moments.
  struct File {
    std::shared_ptr<const storage::SafetensorsFile> source;
    std::unique_ptr<storage::TensorFile> file;
  };
  struct Part {
    StagePart part;
    File weights, moments;
  };
  // Calls `visit(entry number, first value in the entry, first in the range, count)` for each entry
  // that has some of a range of the flat vectors.
  template <typename Visit>
  Status ForEntries(std::size_t first, std::size_t count, const Visit& visit) const;
  Status Begin();
  std::string PathOf(const Part& part, bool weights, const std::string& folder) const;

  const std::string folder_;
  const bool weights_;
  const std::vector<ParameterEntry> entries_;
  std::vector<Part> parts_;
  // By entry: its parts, and its index among the part's entries.
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> locations_;
  std::size_t size_ = 0;
  std::array<std::size_t, 3> written_ = {};  // values: of weights, of each moment
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_STATE_FILES_H_
