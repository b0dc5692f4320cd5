"""What may include what: the module graph of docs/ARCHITECTURE.md as data."""

import re

# Module -> the other modules whose headers it may include. A module is a folder with a target and a
# namespace of its own, which its last name gives.
ARROWS = {
    "common": set(),
    "proto": set(),
    "compression": {"common"},
    "replica/methods": {"common", "compression"},
    "replica/collective": {"common", "compression", "replica/methods"},
    "storage": {"common"},
    "dataset/chat": {"common"},
    "dataset": {"common", "dataset/chat"},
    "net": {"common", "proto"},
    "optimizer": {"common"},
    "model/families": {"common", "storage"},
    "model/exports": {"common", "dataset", "dataset/chat", "model/families", "model/quantized",
                      "storage"},
    "model/device": {"common"},
    "model/quantized": {"common", "storage"},
    "model": {"common", "storage", "optimizer", "model/device", "model/families",
              "model/quantized"},
    "replica": {"common", "compression", "replica/methods", "replica/collective", "optimizer",
                "net", "model", "model/families"},
    "pipeline": {"common", "compression", "replica", "replica/methods", "optimizer", "storage",
                 "net", "model", "model/families", "dataset"},
    "scheduler": {"common", "proto", "net", "dataset", "storage", "compression",
                  "replica/methods", "model/exports", "model/families"},
    "daemon": {"common", "proto", "compression", "replica", "replica/methods",
               "replica/collective", "storage", "dataset", "net", "model", "model/families",
               "pipeline", "scheduler"},
    "client": {"common", "proto", "net"},
    "bench": {"common", "proto", "net", "dataset", "compression", "client"},
}

# A module whose namespace is not its folder's last name.
NAMESPACES = {"dataset/chat": "dataset", "replica/methods": "replica", "model/families": "model",
              "model/exports": "model", "model/quantized": "model", "model/device": "model"}

# Folders within a module, the lowest first -> the others of the module that they may include, "."
# for files directly in the module. A folder's subfolders are folders of their own. A module with an
# entry here lists all of its folders.
FOLDER_ARROWS = {
    "common": set(),
    "common/command_line": {"."},
    "common/memory": {"."},
    "common/process": {"."},
    "compression/simd": set(),
    "compression/api": {"simd"},
    "compression/entropy": {"simd"},
    "compression/codecs": {"api", "entropy", "simd"},
    "compression/codecs/scaled": {"api", "codecs", "entropy", "simd"},
    "compression/codecs/direct": {"api", "codecs", "codecs/scaled"},
    "compression/codecs/aqsgd": {"api", "codecs", "codecs/direct", "codecs/scaled", "simd"},
    "compression/codecs/low_rank": {"api", "codecs", "codecs/scaled", "entropy", "simd"},
    "compression/codecs/klt": {"api", "codecs/low_rank", "entropy", "simd"},
    "compression/codecs/dithered": {"api", "codecs", "codecs/klt", "codecs/scaled", "entropy",
                                    "simd"},
    "compression/registry": {"api", "codecs", "codecs/aqsgd", "codecs/direct", "codecs/dithered",
                             "codecs/low_rank"},
    "compression/device/jobs": {"api", "simd"},
    "compression/device": {"api", "codecs", "device/jobs", "simd"},
    "compression/device/codecs": {"api", "codecs", "codecs/aqsgd", "codecs/dithered",
                                  "codecs/klt", "codecs/scaled", "device", "device/jobs",
                                  "entropy", "simd"},
    "compression/device/registry": {"codecs", "codecs/aqsgd", "device", "device/codecs",
                                    "registry"},
    "dataset": set(),
    "dataset/prepare": {"."},
    "dataset/tokenizers": {"."},
    "model/blocks": set(),
    "model": {"blocks"},
    "model/run": {"."},
    "client/base": set(),
    "client": {"base"},
    "client/manual": {"base"},
    "client/service": {"base"},
    "client/verbs": {".", "base", "manual", "service"},
    "daemon/churn": set(),
    "daemon/tools": set(),
    "daemon/artefacts": set(),
    "daemon/terms": set(),
    "daemon/gpu": {"terms"},
    "daemon": {"artefacts", "churn", "gpu", "terms", "tools"},
    "daemon/program": {".", "churn", "tools"},
    "replica/collective": set(),
    "replica/collective/direct": {"."},
    "replica/collective/ring": {"."},
    "replica/collective/units": {"."},
    "net/base": set(),
    "net/http": {"base"},
    "net/pacing": {"base"},
    "net/identity": {"base"},
    "net/admission": {"base", "identity"},
    "net/relay": {"admission", "base", "http", "identity", "pacing"},
    "net/control": {"admission", "base", "identity", "pacing", "relay"},
    "net/etcd": {"base", "identity"},
    "net/mapping": {"base"},
    "net/objects": set(),
    "net/links": {"admission", "base", "control", "identity", "mapping", "pacing", "relay"},
    "pipeline/core": set(),
    "pipeline/boundary": {"core"},
    "pipeline/compute": {"core", "boundary"},
    "pipeline/runner": {"core", "boundary", "compute"},
    "scheduler/config": set(),
    "scheduler/election": set(),
    "scheduler/plan": {"config"},
    "scheduler/history": {"config", "plan"},
    "scheduler/steps": {"config"},
    "scheduler/peers": {"config", "history"},
    "scheduler/swarm": {"config", "history", "peers", "plan", "steps"},
    "scheduler/mirror": {"config", "history"},
    "scheduler/tracking": {"config", "history"},
    "scheduler/door": {"config", "history", "swarm"},
    "scheduler/server": {"config", "door", "election", "history", "mirror", "plan",
                         "steps", "swarm", "tracking"},
    "storage/files": set(),
    "storage/checkpoints": {"files"},
    "storage/delta": {"files"},
    "storage/history": set(),
    "storage/models": {"files"},
}

# Rooms that may include more than their module: the program shoal-run reads data and templates, and
# writes exports.
EXTRA_ARROWS = [(re.compile(r"model/run/\w+\.(cc|h)$"),
                 {"dataset", "dataset/chat", "model/exports"})]

# Rooms that only their module includes: their headers may include the third party that the module
# keeps to itself.
INNER_ROOMS = {"dataset/tokenizers": "nlohmann-json", "model/blocks": "LibTorch"}

# These see other folders through interfaces only, never through a technology's own header.
INTERFACES_ONLY = {"replica", "pipeline", "model"}
TECHNOLOGY_HEADER = re.compile(r"(rocks|grpc|torch|asio|cuda|spdlog|sodium|openssl)_\w+\.h$")

# Third-party header -> the sources that may include it. Headers of ours never may, except
# generated messages where there is an arrow to proto.
THIRD_PARTY = [
    ("LibTorch", r"(torch|ATen|c10|caffe2)/", r"model/.*\.(cc|cu)$"),
    ("CUDA", r"(cuda|cub|thrust|cooperative_groups|curand|nv)[\w/]*(\.h|\.cuh)?$|cuda/",
     r"(compression/device/.*\.(cu|cuh)|model/.*\.(cc|cu|cuh))$"),
    ("gRPC", r"(grpc|grpcpp|grpc\+\+)/|.*\.grpc\.pb\.h$", r"net/.*\.cc$"),
    ("Abseil", r"absl/", r"net/identity/grpc_setup\.cc$"),
    ("protobuf", r"google/protobuf/", r"(net|scheduler|daemon|client)/.*\.cc$"),
    ("RocksDB", r"rocksdb/", r"storage/.*\.cc$"),
    ("OpenSSL", r"openssl/", r"net/.*\.cc$"),
    ("libcurl", r"curl/", r"net/objects/curl_http_client\.cc$"),
    ("Expat", r"expat\.h", r"net/objects/s3_answers\.cc$"),
    ("miniupnpc", r"miniupnpc/", r"net/mapping/port_mapper\.cc$"),
    ("libnatpmp", r"natpmp\.h", r"net/mapping/port_mapper\.cc$"),
    ("libsodium", r"sodium", r"(net|storage|dataset)/.*\.cc$"),
    ("Boost", r"boost/",
     r"common/asio_executor\.cc$|net/http/\w+\.cc$|net/relay/(\w+\.cc|[\w-]+-inl\.h)$"
     r"|scheduler/tracking/event_file\.cc$"),
    ("libsystemd", r"systemd/", r"common/process/service_manager\.cc$"),
    ("spdlog", r"spdlog/", r"common/spdlog_log\.cc$"),
    ("toml++", r"toml(\+\+|plusplus|\.hpp)", r"(daemon|scheduler|client)/.*\.cc$"),
    ("CLI11", r"CLI/", r"(daemon|scheduler|client|bench|model|net|common/command_line)/.*\.cc$"),
    ("nlohmann-json", r"nlohmann/", r".*(\.cc|-inl\.h)$"),
    ("prometheus-cpp", r"prometheus/", r"net/.*\.cc$"),
    ("zstd", r"zstd", r"(compression|storage)/.*\.cc$"),
    ("xxHash", r"xxh", r"common/checksum\.cc$"),
    ("Highway", r"hwy/", r"compression/.*(\.cc|-inl\.h)$"),
    ("Random123", r"Random123/", r"(compression|replica|dataset|model)/.*\.(cc|cu|cuh)$"),
    ("PCRE2", r"pcre2", r"dataset/.*\.cc$"),
    ("utf8proc", r"utf8proc", r"dataset/tokenizers/.*\.cc$"),
]

STD_HEADERS = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
cinttypes climits clocale cmath compare complex concepts condition_variable coroutine csetjmp
csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception
execution filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd
iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers
numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set
shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
valarray variant vector version
""".split())

# Header of the standard library -> names that a file gets from it. The precompiled headers have all
# of these, so that compilers do not miss the include of a file (cmake/ShoalPrecompiled.cmake).
STD_NAMES = {
    "algorithm": "min max clamp copy_n fill fill_n any_of all_of none_of equal sort max_element "
                 "min_element minmax_element minmax find find_if count count_if stable_sort "
                 "nth_element shuffle replace reverse upper_bound lower_bound is_sorted unique "
                 "transform partial_sort adjacent_find mismatch ranges::copy ranges::fill "
                 "ranges::equal ranges::count ranges::all_of ranges::any_of ranges::find_if "
                 "ranges::find ranges::stable_sort ranges::max_element ranges::min_element",
    "array": "array",
    "atomic": "atomic",
    "bit": "bit_cast popcount countr_zero bit_width has_single_bit endian bit_ceil bit_floor",
    "charconv": "from_chars to_chars",
    "cctype": "isalnum isdigit toupper",
    "chrono": "chrono",
    "cmath": "sqrt fabs isfinite ldexp pow exp log log2 exp2 nan nanf isnan floor ceil round "
             "llround lround nearbyint cos sin tanh ilogb signbit nextafter fmod copysign isinf "
             "hypot fma fmax fmin",
    "cstddef": "byte to_integer",
    "cstdint": "uint64_t uint32_t uint8_t uint16_t int32_t int64_t int8_t int16_t",
    "cstdio": "printf fprintf snprintf vsnprintf fflush fputs fputc fwrite",
    "cstdlib": "getenv abort exit system atoi free aligned_alloc strtoull strtod",
    "cstring": "memcpy memset memcmp memchr strcmp strerror strcpy",
    "deque": "deque",
    "filesystem": "filesystem",
    "fstream": "ofstream ifstream fstream",
    "functional": "function",
    "iostream": "cout cerr cin",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "shared_ptr unique_ptr weak_ptr make_shared make_unique "
              "make_unique_for_overwrite enable_shared_from_this static_pointer_cast",
    "mutex": "mutex lock_guard unique_lock call_once once_flag",
    "numeric": "accumulate iota inner_product lcm",
    "optional": "optional nullopt",
    "random": "mt19937 mt19937_64 normal_distribution uniform_real_distribution "
              "uniform_int_distribution random_device",
    "set": "set multiset",
    "span": "span as_bytes",
    "sstream": "istringstream ostringstream stringstream",
    "string": "string to_string",
    "string_view": "string_view",
    "system_error": "error_code errc",
    "thread": "thread jthread this_thread",
    "tuple": "tuple tie",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange as_const pair",
    "variant": "variant visit holds_alternative get_if monostate",
    "vector": "vector",
}
# Header -> headers that bring its names along, by the standard.
STD_WITHIN = {"string_view": {"string"}, "system_error": {"charconv", "filesystem"},
              "utility": {"algorithm", "map", "tuple"}}

# Headers of the operating system: any source may include them, no header of ours.
SYSTEM_HEADER = re.compile(
    r"(sys|linux|netinet|arpa|net)/\w+\.h$"
    r"|(dirent|dlfcn|errno|fcntl|fnmatch|glob|grp|ifaddrs|immintrin|langinfo|malloc|netdb|poll|"
    r"pthread|pty|pwd|sched|signal|spawn|termios|time|ucontext|unistd|wordexp|x86intrin|cpuid)\.h$")

# A data member of a class that belongs to the thread which this knows.
THREAD_OWNER = re.compile(
    r"\b(Executor\* const control_|Member\* const member_|Generation\* const generation_)$")

FOLDER_FILES_MAX = 40
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
HEADER_LINES_MAX = 250
COLUMNS_MAX = 100
# Of README.md, CONTRIBUTING.md and all pages in docs/, as wc counts them.
DOCS_WORDS_MAX = 30000

# In what ships; tests parse what they made themselves.
BANNED_IN_PROGRAMS = [
    (re.compile(r"\b[jJ]son::parse\("), "foreign text may nest without end: ParseJson"),
    (re.compile(r"(?<![\w:.])(getenv|fprintf)\("), "left from a search for a bug? else std::"),
]
BANNED_WORDS = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "finish it or open an issue"),
    (re.compile(r"\bDBG\b|//\s*DEBUG\b"), "left from the search for a bug"),
    (re.compile(r"\bnot implemented\b|\bfor now\b", re.I), "finish it or open an issue"),
    (re.compile(r"\bplaceholder\b(?!=)", re.I), "finish it or say what it is"),
    (re.compile(r"(?<![\w.~-])/(work|root|home)/"), "paths of one machine do not belong here"),
]
