"""The four roles that propose: testing, profiling, planning, coding. None of them decides a verdict or sees a device."""
