// ObjectStore: files under names in a store that outlives this machine: an S3-compatible service,
// or a folder, such as a mounted disk.
//
// Names ("keys") are parts of A-Z a-z 0-9 . _ - separated by '/', none of them "." or ".."; at most
// kObjectKeyBytesMax bytes. An object appears whole or not at all. Every call blocks until it is
// done, has failed for good or the store was told to stop. Thread: one at a time.

#ifndef SHOAL_NET_OBJECTS_OBJECT_STORE_H_
#define SHOAL_NET_OBJECTS_OBJECT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::net {

constexpr std::size_t kObjectKeyBytesMax = 512;
// Of one listing; more is an error (resource exhausted).
constexpr std::size_t kObjectsListedMax = 100'000;

struct ObjectInfo {
  std::string key;
  std::uint64_t size = 0;
  bool operator==(const ObjectInfo&) const = default;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // As people name it: "s3://bucket/prefix", "file:///folder".
  virtual const std::string& address() const = 0;

  // Each replaces what the store has under `key`. A file that changes while it is read is data
  // loss.
  virtual Status PutBytes(const std::string& key, std::string_view bytes) = 0;
  virtual Status PutFile(const std::string& key, const std::string& path) = 0;
  // Not found: there is none.
  virtual Result<ObjectInfo> Head(const std::string& key) = 0;
  // Bytes [offset, offset + size) of it, fewer at its end; "" at its end and behind it.
  virtual Result<std::string> Get(const std::string& key, std::uint64_t offset,
                                  std::size_t size) = 0;
  // All objects whose key begins with `prefix` ("blobs/"), in order of their keys. Keys of others
  // that could not be ours are left out.
  virtual Result<std::vector<ObjectInfo>> List(const std::string& prefix) = 0;
  // One that is not there is fine.
  virtual Status Delete(const std::string& key) = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_OBJECT_STORE_H_
