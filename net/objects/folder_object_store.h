// An ObjectStore in a folder: objects are files, keys their paths. Internal to this room.

#ifndef SHOAL_NET_OBJECTS_FOLDER_OBJECT_STORE_H_
#define SHOAL_NET_OBJECTS_FOLDER_OBJECT_STORE_H_

#include <memory>
#include <stop_token>
#include <string>

#include "net/objects/object_store.h"

namespace shoal::net {

// `folder` is made with the first object. A folder that is not there holds nothing.
std::unique_ptr<ObjectStore> NewFolderObjectStore(std::string address, std::string folder,
                                                  std::stop_token stop);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_FOLDER_OBJECT_STORE_H_
