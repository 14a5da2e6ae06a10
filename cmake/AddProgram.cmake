# engram_add_program(NAME TASKS my_task.h ... BACKBONES my_memory.h ... SOURCES my_memory.cpp ...): the program NAME with all
# of engram's commands, and with one's own tasks and backbones in all its lists. To be called in a CMakeLists.txt itself,
# not in a function: it enables the language CUDA where engram was built for GPUs.
#
# A file of TASKS says static_assert(engram::GridTask<Task>); one of BACKBONES static_assert(engram::BackboneOptions<Options>);
# each on a line of its own, with the struct's full name. SOURCES are compiled beside.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/CudaTasks.cmake)

macro(engram_add_program)
  if(engram_CUDA AND NOT CMAKE_CUDA_COMPILER_LOADED)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${engram_CUDA_COMPILER})
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${engram_CUDA_ARCHITECTURES})
    endif()
    enable_language(CUDA)
  endif()
  _engram_add_program(${ARGN})
endmacro()

function(_engram_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 own "" "" "TASKS;BACKBONES;SOURCES")
  if(own_UNPARSED_ARGUMENTS OR NOT (own_TASKS OR own_BACKBONES))
    message(FATAL_ERROR "engram_add_program(${ARGV}): it takes NAME TASKS file... BACKBONES file... SOURCES file..., "
      "with a task or a backbone.")
  endif()
  foreach(kind TASKS BACKBONES SOURCES)
    set(files "")
    foreach(file ${own_${kind}})
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
      if(NOT EXISTS ${file})
        message(FATAL_ERROR "engram_add_program(${ARGV}): there is no file ${file}.")
      endif()
      list(APPEND files ${file})
    endforeach()
    set(own_${kind} ${files})
  endforeach()

  set(includes "#include \"apps/cli/program.h\"\n#include \"envs/task_entry.h\"\n#include \"memory/core/registry.h\"\n")
  set(added "")
  foreach(file ${own_TASKS} ${own_BACKBONES})
    string(APPEND includes "#include \"${file}\"\n")
  endforeach()
  foreach(file ${own_TASKS})
    engram_types_of(GridTask ${file} types)
    foreach(type ${types})
      string(APPEND added "  add_task(task_entry<${type}>());\n")
      if(engram_CUDA)
        string(APPEND added "  add_cuda_task(${type}::kName, make_cuda_vec_env_of<${type}>);\n")
      endif()
    endforeach()
  endforeach()
  foreach(file ${own_BACKBONES})
    engram_types_of(BackboneOptions ${file} types)
    foreach(type ${types})
      string(APPEND added "  add_backbone(backbone_entry<${type}>());\n")
    endforeach()
  endforeach()
  set(sources "")
  if(engram_CUDA)
    string(APPEND includes "#include \"envs/vec/cuda_vec_env.h\"\n")
    engram_cuda_tasks(sources ${own_TASKS})
  endif()
  set(main ${CMAKE_CURRENT_BINARY_DIR}/${name}_main.cpp)
  file(CONFIGURE OUTPUT ${main} @ONLY CONTENT "${includes}
namespace engram {
static void add_own() {
${added}}
}  // namespace engram

int main(int argc, char** argv) { return engram::run_program(argc, argv, engram::add_own); }
")
  add_executable(${name} ${main} ${sources} ${own_SOURCES})
  target_link_libraries(${name} PRIVATE engram::apps)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Shared)
endfunction()
