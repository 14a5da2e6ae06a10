// Checkpoints: DIR/checkpoints/checkpoint_000001.safetensors and so on, each a whole state of a run (StateArchive) with
// its config. A number is never used twice; the newest is what a run goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/settings.h"
#include "storage/tensors/state_archive.h"

namespace engram {

struct CheckpointHeader {
  Settings config;  // every value of the run's config
  std::int64_t steps = 0, updates = 0;
};

struct Checkpoint : CheckpointHeader {
  static constexpr int kFormat = 1;

  std::filesystem::path file;
  StateArchive state;
};

// The number in the name of a checkpoint's file; 0 for a file of another name.
std::int64_t checkpoint_number(const std::filesystem::path& file);

// Files of checkpoints in `folder`, oldest first; none where there is no such folder.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

// Writes the next one, then removes all but the newest `keep`. Returns its file. Errors are those of replace_file().
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const StateArchive& state,
                                       const std::string& config_text, std::int64_t steps, std::int64_t updates,
                                       int keep);

// Reads a file's metadata. Throws UserError for a file that is no checkpoint, or one of another format; `where` names
// it.
CheckpointHeader read_checkpoint_header(const std::map<std::string, std::string>& metadata, bool digest_checked,
                                        const std::string& where);

// Throws UserError for a file that is damaged, no checkpoint, or one of another format.
Checkpoint load_checkpoint(const std::filesystem::path& file);

// Loads the newest checkpoint; nothing where there is none. A damaged one is passed over for the one before it, and
// `warn` is told so in one line. Throws UserError if all are damaged.
std::optional<Checkpoint> load_newest_checkpoint(const std::filesystem::path& folder,
                                                 const std::function<void(const std::string&)>& warn);

}  // namespace engram
