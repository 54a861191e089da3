add_subdirectory(attack/schedules)
