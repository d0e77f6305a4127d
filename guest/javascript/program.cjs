/** Runs one file of the candidate as a program, with its arguments. */
"use strict";
const { install } = require("./load.cjs");

install();
process.argv.splice(1, 1);
require(process.argv[1]);
