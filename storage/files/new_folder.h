// A folder that appears whole or not at all: filled beside its place, then renamed into it.
// Thread: any one at a time.

#ifndef SHOAL_STORAGE_FILES_NEW_FOLDER_H_
#define SHOAL_STORAGE_FILES_NEW_FOLDER_H_

#include <string>

#include "common/status.h"

namespace shoal::storage {

class NewFolder {
 public:
  // `target` must not exist, or be an empty folder; its parents are made.
  static Result<NewFolder> Begin(const std::string& target);
  ~NewFolder();  // removes what was not committed
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&&) = delete;

  const std::string& path() const { return scratch_; }  // to be filled
  Status Commit();

 private:
  NewFolder(std::string target, std::string scratch);
  std::string target_, scratch_;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_FILES_NEW_FOLDER_H_
