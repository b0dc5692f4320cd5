// AtomicFolder: a folder filled file by file that appears under its name whole or not at all.
//
// Thread: one at a time.

#ifndef SHOAL_STORAGE_FILES_ATOMIC_FOLDER_H_
#define SHOAL_STORAGE_FILES_ATOMIC_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "common/status.h"

namespace shoal::storage {

class AtomicFolder {
 public:
  // Makes a folder beside `target`, with its parents. `target` must not exist or be an empty
  // folder.
  static Result<std::unique_ptr<AtomicFolder>> Create(const std::string& target);
  // Deletes the folder unless Commit succeeded.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& path() const { return path_; }  // to write into
  // Renames to the target and makes the name durable.
  Status Commit();

 private:
  AtomicFolder(std::string target, std::string path)
      : target_(std::move(target)), path_(std::move(path)) {}

  const std::string target_;
  const std::string path_;
  bool committed_ = false;
};

// Puts `folder` in the place of the folder `target`, beside it, and deletes that: for file systems
// that cannot swap the two at once. In between what was `target` has a name with ".old-".
Status ReplaceFolder(const std::string& folder, const std::string& target);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_ATOMIC_FOLDER_H_
