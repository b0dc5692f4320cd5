// The name `dithered` and its options (codec_entry.h).

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_ENTRY_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_ENTRY_H_

namespace shoal::compression {

struct CodecEntry;

const CodecEntry& DitheredEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_ENTRY_H_
