# `cmake --install` puts the program in bin/ and the libraries, as targets engram::base, engram::envs, engram::memory,
# engram::agents ..., where find_package(engram) of another project finds them, with engram_add_program.
include(CMakePackageConfigHelpers)
set(package lib/cmake/engram)

set(installed ${folders} apps)
if(ENGRAM_VIDEO_ENABLED)
  list(APPEND installed video films)
  set_target_properties(engram_pictures PROPERTIES EXPORT_NAME pictures)
  install(TARGETS engram_pictures EXPORT engram)
endif()
if(ENGRAM_CUDA_ENABLED)
  set_target_properties(engram_memory_bench PROPERTIES EXPORT_NAME memory_bench)
  install(TARGETS engram_memory_bench EXPORT engram)
endif()
foreach(folder ${installed})
  set_target_properties(engram_${folder} PROPERTIES EXPORT_NAME ${folder})
  install(TARGETS engram_${folder} EXPORT engram)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION include/engram FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endforeach()
set_target_properties(engram_options PROPERTIES EXPORT_NAME options)
install(TARGETS engram_options EXPORT engram)
install(TARGETS engram)
install(EXPORT engram NAMESPACE engram:: FILE engramTargets.cmake DESTINATION ${package})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/engramConfig.cmake.in ${PROJECT_BINARY_DIR}/engramConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/engramConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/engramConfig.cmake ${PROJECT_BINARY_DIR}/engramConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake ${PROJECT_SOURCE_DIR}/cmake/CudaTasks.cmake
  ${PROJECT_SOURCE_DIR}/cmake/AddProgram.cmake DESTINATION ${package})
