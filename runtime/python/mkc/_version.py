VERSION = "0.1.0"  # CMakeLists.txt's; a test compares them
