// The tasks of engram probe, a file a family; each with its defaults (probe_tasks() has their names).
#pragma once

#include <memory>

#include "experiments/probe/task.h"

namespace engram {

// prefix.cpp: answers of prefixes of a sequence (Grazzi et al. 2025; Irie et al. 2025, tables 3 and 6).
std::unique_ptr<ProbeTask> make_parity_task();
std::unique_ptr<ProbeTask> make_modular_task();

// recall.cpp: multi-query associative recall (Arora et al. 2024), and with keys that are written several times.
std::unique_ptr<ProbeTask> make_recall_task();
std::unique_ptr<ProbeTask> make_rewritten_task();

// copying.cpp
std::unique_ptr<ProbeTask> make_copy_task();
std::unique_ptr<ProbeTask> make_selective_copy_task();

// retrieval.cpp: one of many keys, a pair a step (Schlag et al. 2021, section 6.1).
std::unique_ptr<ProbeTask> make_retrieval_task();

// text.cpp: the next byte of a file.
std::unique_ptr<ProbeTask> make_text_task();

// mad.cpp: the six tasks of mechanistic architecture design (Poli et al. 2024; generators of athms/mad-lab).
std::unique_ptr<ProbeTask> make_mad_compress_task();
std::unique_ptr<ProbeTask> make_mad_fuzzy_recall_task();
std::unique_ptr<ProbeTask> make_mad_recall_task();
std::unique_ptr<ProbeTask> make_mad_memorize_task();
std::unique_ptr<ProbeTask> make_mad_noisy_recall_task();
std::unique_ptr<ProbeTask> make_mad_selective_copy_task();

// regbench.cpp: words of random automata, told from a few of them (Akyürek et al. 2024).
std::unique_ptr<ProbeTask> make_regbench_task();

}  // namespace engram
