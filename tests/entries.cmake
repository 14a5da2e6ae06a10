# engram_test_entries(folder program SOURCES): one ctest entry FOLDER.SOURCE for each source of a test program.
function(engram_test_entries folder program)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${folder}.${name} COMMAND ${program} --source-file=*${folder}/${source} --minimal)
  endforeach()
endfunction()

# Of sources that need a GPU: they alone may be skipped, and only by the exit status that says so (tests/skip.h). Of any
# other source that status is a failure, like every status but 0.
function(engram_gpu_tests folder)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set_tests_properties(${folder}.${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
